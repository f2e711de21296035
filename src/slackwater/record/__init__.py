"""The only teller: what changed, from, to, because; and the same facts for machines."""
