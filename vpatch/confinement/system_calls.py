"""Which system calls a script in the sandbox may make: a filter for the kernel (seccomp).

Namespaces do not cover everything. A Unix socket of the host, vsock, the user's keys and the log of
the kernel are reached by system calls alone, and new namespaces would give new capabilities.
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass

# Numbers of `asm/unistd.h` that differ between machines; the later ones are the same everywhere.
_DENIED_X86 = {
    "ptrace": 101, "syslog": 103, "pivot_root": 155, "chroot": 161, "mount": 165, "umount2": 166,
    "init_module": 175, "delete_module": 176, "kexec_load": 246, "add_key": 248,
    "request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298,
    "fanotify_init": 300, "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "finit_module": 313, "bpf": 321, "userfaultfd": 323,
}  # fmt: skip
_DENIED_ARM = {
    "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "unshare": 97, "kexec_load": 104,
    "init_module": 105, "delete_module": 106, "syslog": 116, "ptrace": 117, "add_key": 217,
    "request_key": 218, "keyctl": 219, "perf_event_open": 241, "fanotify_init": 262,
    "open_by_handle_at": 265, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271,
    "finit_module": 273, "bpf": 280, "userfaultfd": 282,
}  # fmt: skip
_DENIED_EVERYWHERE = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "pidfd_getfd": 438, "mount_setattr": 442,
}  # fmt: skip
_CLONE3 = 435
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET.
_NEW_NAMESPACES = 0x7E020000
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOCK_STREAM, _SOCK_TYPES = 1, 0xF
# On x86-64, calls of the x32 interface have this bit.
_X32 = 0x40000000

_KILL, _ERROR, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
# Operations of the classic BPF (linux/filter.h), and places in `struct seccomp_data`.
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _MACHINE, _FIRST, _SECOND = 0, 4, 16, 24


@dataclass(frozen=True)
class _Machine:
    audit: int
    denied: dict[str, int]
    clone: int
    socket: int
    socketpair: int


_MACHINES = {
    "x86_64": _Machine(0xC000003E, _DENIED_X86, clone=56, socket=41, socketpair=53),
    "aarch64": _Machine(0xC00000B7, _DENIED_ARM, clone=220, socket=198, socketpair=199),
}


def system_call_filter() -> bytes | None:
    """Return the filter as the kernel takes it; None if vpatch has none for this machine.

    It allows sockets of the internet alone, which reach nothing in a network namespace of their
    own, and connected pairs of stream sockets within a process.
    """
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return None
    refuse = (_RETURN, 0, 0, _ERROR | errno.EPERM)
    allow = (_RETURN, 0, 0, _ALLOW)
    code = [
        (_LOAD, 0, 0, _MACHINE),
        (_IF_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, 0, 1, _X32),
        refuse,
    ]
    for number in (*machine.denied.values(), *_DENIED_EVERYWHERE.values()):
        code += [(_IF_EQUAL, 0, 1, number), refuse]
    # The flags of clone3 are in memory, where a filter cannot look. libc then calls clone.
    code += [(_IF_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
    code += [
        (_IF_EQUAL, 0, 4, machine.clone),
        (_LOAD, 0, 0, _FIRST),
        (_IF_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        refuse,
        allow,
        (_IF_EQUAL, 0, 5, machine.socket),
        (_LOAD, 0, 0, _FIRST),
        (_IF_EQUAL, 2, 0, _AF_INET),
        (_IF_EQUAL, 1, 0, _AF_INET6),
        (_RETURN, 0, 0, _ERROR | errno.EAFNOSUPPORT),
        allow,
        (_IF_EQUAL, 0, 6, machine.socketpair),
        (_LOAD, 0, 0, _FIRST),
        (_IF_EQUAL, 0, 3, _AF_UNIX),
        # A pair of datagram sockets can be connected to others afterwards.
        (_LOAD, 0, 0, _SECOND),
        (_AND, 0, 0, _SOCK_TYPES),
        (_IF_EQUAL, 1, 0, _SOCK_STREAM),
        refuse,
        allow,
    ]
    return b"".join(struct.pack("=HBBI", *one) for one in code)
