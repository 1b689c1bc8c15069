"""A script that tries to leave its sandbox: each line of its output is what one attempt came to."""

from __future__ import annotations

# What an attempt does, in Python. It has failed if it raises; else it prints what it reached.
# `syscall` makes a call by its number, `host` is what the test made outside.
ATTEMPTS = {
    # The kernel and its settings. Nothing is written: to open for writing is enough.
    "open core_pattern": "open('/proc/sys/kernel/core_pattern', 'r+')",
    "open modprobe": "open('/proc/sys/kernel/modprobe', 'r+')",
    "open any setting": """
found = [f'{p}/{n}' for p, _, names in os.walk('/proc/sys') for n in names
         if os.access(f'{p}/{n}', os.W_OK)]
assert found; print(found[:3])""",
    "open sysrq-trigger": "open('/proc/sysrq-trigger', 'w')",
    "open own oom_score_adj": "open('/proc/self/oom_score_adj', 'r+')",
    "see /sys": "print(os.listdir('/sys'))",
    "mount": "call('mount', b'x', b'/tmp', b'tmpfs', 0, None)",
    "remount /proc": "call('mount', None, b'/proc', None, 32 | 4096, None)",
    "unmount /proc": "call('umount2', b'/proc', 2)",
    "fsopen": "syscall(430, b'tmpfs', 0)",
    "new user namespace": "call('unshare', 0x10000000)",
    "clone with a user namespace": "clone(0x10000000 | 17)",
    "clone3": "syscall(435, None, 0)",
    "join a namespace": "call('setns', os.open('/proc/1/ns/net', 0), 0)",
    "chroot": "os.chroot('/tmp')",
    "become root": "os.setuid(0)",
    "become root by su": "subprocess.run(['su', '-c', 'id'], check=True, stdin=-3)",
    "have capabilities": """
caps = [l for l in open('/proc/self/status') if l.startswith('Cap') and int(l.split()[1], 16)]
assert caps; print(caps)""",
    "get new privileges": "assert call('prctl', 39, 0, 0, 0, 0) == 0",
    "make a device": "os.mknod('/tmp/disk', stat.S_IFBLK | 0o666, os.makedev(254, 0))",
    "open a disk or memory": """
for name in ('mem', 'kmsg', 'kvm', 'fuse', 'vda', 'sda', 'nvme0n1', 'port', 'loop-control'):
    try: open('/dev/' + name, 'rb'); print(name); break
    except OSError: pass
else: raise OSError""",
    "set the name of the host": "socket.sethostname('x')",
    "set the clock": "time.clock_settime(time.CLOCK_REALTIME, time.time())",
    "trace the first process": "call('ptrace', 16, 1, None, None)",
    "read the kernel's log": "call('klogctl', 3, ctypes.create_string_buffer(99), 99)",
    "read keys": "number(250, 219, 0, -3, 1)",
    "add a key": "number(248, 217, b'user', b'x', b'y', 1, -2)",
    "bpf": "number(321, 280, 0, None, 0)",
    "perf_event_open": "number(298, 241, None, 0, -1, -1, 0)",
    "userfaultfd": "number(323, 282, 1)",
    "io_uring": "syscall(425, 1, ctypes.create_string_buffer(120))",
    "open by handle": "number(304, 265, 3, None, 0)",
    # What belongs to others.
    "see a process of others": """
assert [p for p in os.listdir('/proc') if p.isdigit() and int(p) > 400]""",
    "read the first process's environment": """
text = open('/proc/1/environ').read(); assert host['secret'] in text; print(text)""",
    "read the environment": "assert host['secret'] in repr(os.environ); print('secret')",
    "reach the host's root": "print(os.listdir('/proc/1/root/home'))",
    "read a file of the user": "print(open(host['file']).read())",
    "list home folders": "print(os.listdir('/home') + os.listdir(host['home']))",
    "list /run": "print(os.listdir('/run'))",
    "list /var": "print(os.listdir('/var'))",
    "read shadow": "print(open('/etc/shadow').read())",
    "read the host's settings": "print(open('/etc/hostname').read())",
    "read beside the script": "print(open(os.path.dirname(__file__) + '/beside').read())",
    "read its input": "data = os.read(0, 9); assert data; print(data)",
    "open a terminal": "os.open('/dev/tty', os.O_RDWR)",
    "push input into a terminal": """
import fcntl
for fd in (0, 1, 2):
    try: fcntl.ioctl(fd, 0x5412, b'x'); print(fd); break
    except OSError: pass
else: raise OSError""",
    "find a further descriptor": """
fds = [n for n in range(3, 200) if os.path.lexists(f'/proc/self/fd/{n}')]
assert len(fds) > 1; print([os.readlink(f'/proc/self/fd/{n}') for n in fds])""",
    "connect to a socket in a folder": "unix(host['socket'])",
    "connect to a socket in the copy": "unix(host['at'] + '/vllm/socket')",
    "connect to an abstract socket": "unix('\\0' + host['abstract'])",
    "send from a pair of sockets": """
socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', host['socket'])""",
    "serve a socket": "socket.socket(socket.AF_UNIX).bind('/tmp/own')",
    "vsock": "socket.socket(40, socket.SOCK_STREAM).connect((2, 22))",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
    "a raw packet": "socket.socket(17, socket.SOCK_RAW)",
    "connect to a port": "socket.create_connection(('127.0.0.1', host['port']), 2)",
    "send a datagram": "socket.socket(2, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
    "resolve a name": "print(socket.getaddrinfo('example.org', 80))",
    # What it may not write.
    "write the system": "open('/usr/x', 'w')",
    "write the root": "open('/x', 'w')",
    "write settings": "open('/etc/x', 'w')",
    "write devices": "open('/dev/x', 'w')",
    "write beside the copy": "open(os.path.dirname(host['at']) + '/x', 'w')",
    "write itself": "open(__file__, 'a')",
    "write its Python": "open(sys.prefix + '/x', 'w')",
    # What it may not take.
    "a file of 5 TB": "open('/tmp/huge', 'w').truncate(5 << 40)",
    "a file of 5 TB in the copy": "open('vllm/huge', 'w').truncate(5 << 40)",
    "reserve 1 GB": "os.posix_fallocate(os.open('/tmp/much', 65), 0, 1 << 30)",
    "memory of 8 GB": "bytearray(8 << 30)",
    "1,000 processes": """
for _ in range(1000):
    if not os.fork(): time.sleep(60)""",
    "2,000 descriptors": "held = [open('/dev/null') for _ in range(2000)]",
    "raise its limits": "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, 1 << 40))",
    # The stub.
    "import a module of vLLM that is not there": "import vllm.nothing",
    "take a name of the stub": "from vllm import LLM",
}
_HEAD = """
import contextlib, ctypes, json, os, platform, resource, signal, socket, stat, subprocess, sys, time
host = json.loads(HOST)
libc = ctypes.CDLL(None, use_errno=True)

def checked(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def call(name, *words):
    return checked(getattr(libc, name)(*words))

def syscall(number, *words):
    return checked(libc.syscall(number, *words))

def number(x86, arm, *words):
    return syscall(x86 if platform.machine() == 'x86_64' else arm, *words)

def clone(flags):
    child = number(56, 220, flags, None, None, None, None)
    if child == 0:
        os._exit(0)
    return child

def unix(address):
    socket.socket(socket.AF_UNIX).connect(address)

for name, code in json.loads(ATTEMPTS).items():
    try:
        # One that leaves processes must not end the others.
        exec(code, dict(globals()))
    except BaseException as error:
        print('refused:', name, '-', type(error).__name__, error)
    else:
        print('REACHED:', name)
    sys.stdout.flush()
"""


def script(host: str) -> str:
    """The script that makes all attempts; `host` is what the test made outside, as JSON."""
    import json

    return f"HOST = {host!r}\nATTEMPTS = {json.dumps(ATTEMPTS)!r}\n{_HEAD}"
