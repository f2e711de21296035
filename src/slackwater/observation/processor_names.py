"""What arm64 processors are called: their /proc/cpuinfo has numbers where x86 has names.

Ids as in arch/arm64/include/asm/cputype.h and util-linux's sys-utils/lscpu-arm.c; the server
parts that run Kubernetes nodes, and the boards people test on. Others keep their numbers.
"""

_VENDORS: dict[int, str] = {
    0x41: "ARM",
    0x42: "Broadcom",
    0x43: "Cavium",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x50: "APM",
    0x51: "Qualcomm",
    0x61: "Apple",
    0x6D: "Microsoft",
    0xC0: "Ampere",
}
_MODELS: dict[tuple[int, int], str] = {
    (0x41, 0xD03): "Cortex-A53",
    (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse-N1",
    (0x41, 0xD40): "Neoverse-V1",
    (0x41, 0xD49): "Neoverse-N2",
    (0x41, 0xD4F): "Neoverse-V2",
    (0x41, 0xD84): "Neoverse-V3",
    (0x41, 0xD8E): "Neoverse-N3",
    (0x43, 0x0AF): "ThunderX2",
    (0x46, 0x001): "A64FX",
    (0x48, 0xD01): "TaiShan-v110",
    (0x48, 0xD02): "TaiShan-v120",
    (0x6D, 0xD49): "Azure-Cobalt-100",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1a",
}


def arm_vendor(implementer: int) -> str:
    return _VENDORS.get(implementer, f"implementer {implementer:#04x}")


def arm_model(implementer: int, part: int) -> str:
    known = _MODELS.get((implementer, part))
    return f"{arm_vendor(implementer)} {known or f'part {part:#05x}'}"
