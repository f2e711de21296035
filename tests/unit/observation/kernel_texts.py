"""Texts of real kernels, as they were read."""

# Linux 6.18, cgroup v1.
STAT_V1 = b"""nr_periods 71
nr_throttled 70
throttled_time 13345261789
nr_bursts 3
burst_time 4000999
"""
# Linux 4.19, cgroup v1: no bursts yet.
STAT_V1_OLD = b"nr_periods 5\nnr_throttled 1\nthrottled_time 90000\n"
# Linux 6.12, cgroup v2.
STAT_V2 = b"""usage_usec 1003581
user_usec 1000034
system_usec 3546
nice_usec 0
core_sched.force_idle_usec 0
nr_periods 21
nr_throttled 20
throttled_usec 3991532
nr_bursts 1
burst_usec 1234
"""
# The same without the cpu controller.
STAT_V2_BARE = b"usage_usec 77\nuser_usec 70\nsystem_usec 7\n"
PRESSURE = b"""some avg10=2.15 avg60=12.07 avg300=100.00 total=13479353
full avg10=0.00 avg60=0.01 avg300=0.10 total=9
"""
PROC_STAT = b"""cpu  16725 3 3799 179099 473 1 109 27 100 2
cpu0 7587 1 1435 90999 40 1 26 7 100 2
cpu1 9138 2 2364 88100 433 0 83 20 0 0
intr 383044 0 0 0
ctxt 826436
"""
X86_CPUINFO = b"""processor	: 0
vendor_id	: GenuineIntel
cpu family	: 6
model		: 85
model name	: Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz
stepping	: 7
cache size	: 36608 KB
flags		: fpu vme de pse model name : not this one

processor	: 1
vendor_id	: Other
model name	: Other
"""
ARM_CPUINFO = b"""processor	: 0
BogoMIPS	: 243.75
Features	: fp asimd evtstrm
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x3
CPU part	: 0xd0c
CPU revision	: 1
"""
