"""A node in memory: a kernel that obeys the kernel's rules, and work for it, in virtual time."""
