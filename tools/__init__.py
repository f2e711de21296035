"""Tools of the developers: setup, test runs, virtual machines. The product never imports them."""
