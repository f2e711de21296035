"""What rules about quality measure on a node: named series, read only while a rule names them."""
