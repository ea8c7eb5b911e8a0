"""What a program does, bare and recorded: output, end, files, and every system call and signal of
its processes and threads, as strace tells them. compare() says how two runs differ.

strace runs under the tool, not the tool under it: only the program's processes are in the trace.
Its -i gives the address each call was made from, so that the agent's own are known for certain:
they come from where the loader mapped the agent. What is not the program's is taken out by these
rules and no others (docs/AGENT-RULES.md, "What a program can see of it"):

- the loader's calls that map the agent: from the open of its file to the close, and the
  mprotect of its pages;
- pages the loader takes for itself until it is done: it knows one library more;
- calls made from the agent's code, if they are among OWN_CALLS;
- how /proc/self/maps is read, since there is more to read: the reads, and pages taken meanwhile;
- the number of environment entries at an exec, which strace prints;
- where the status of a child is to be stored: a program that does not ask is recorded as if
  it did (hooks_wait.c).

And by the nature of the thing: addresses, pids, times, random numbers, what
/proc says, names made up for temporary files, and what of its mapping a
new malloc arena gives back, which depends on where the kernel puts it.
"""

import collections
import dataclasses
import difflib
import os
import pathlib
import re
import shutil
import subprocess

# Made from the agent's code, with what their arguments are. Any other call from there counts as
# the program's own.
OWN_CALLS = {
    **dict.fromkeys(
        "mmap munmap mremap mprotect madvise rt_sigprocmask gettid getpid getppid readlink getcwd "
        "close fstat read pread64 access fgetxattr geteuid getegid getuid getgid munlock".split(), ""
    ),
    # Is the thread still there? What is its name? Is there a filter? Where is its signal stack?
    "tgkill": r"\d+, \d+, 0\)",
    "prctl": r"PR_GET_(NAME|SECCOMP)\b",
    "sigaltstack": r"NULL,",
    "clock_gettime": r"CLOCK_MONOTONIC,",
    # Whether a large environment leaves room for ours.
    "getrlimit": r"RLIMIT_STACK,",
    # Functions that are changed in place: all of a place, then the jump, its first byte last.
    "pwrite64": r"\d+, \"(?:[^\"\\]|\\.)*\"(?:\.\.\.)?, (?:96|4|1), \d+\)",
    # Whether a program to be executed may load the agent.
    "statfs": r"\".*libmallograph-agent\.so\",",
    # Whether there is one thread, when a shell is started.
    "stat": r"\"/proc/self/task\",",
    # The session file and the program's at the start; that of one about to be executed.
    "open": r"\".*O_CLOEXEC",
    "openat2": r".*\".*O_RDONLY.*O_CLOEXEC",
    "openat": r".*\".*O_RDONLY.*O_CLOEXEC",
}  # fmt: skip

LINE = re.compile(r"\[([0-9a-f?]+)\] (.*)")
CALL = re.compile(r"(\w+)\((.*)")
RESULT = re.compile(r"\) += (-?\d+|0x[0-9a-f]+|\?)(?: .*)?$")
ADDRESS = re.compile(r"0x[0-9a-f]{5,16}\b")
# glibc's: twice the size, of which the kernel's choice of an address decides what is kept.
ARENA = re.compile(r"mmap\(NULL, 134217728, PROT_NONE, .*MAP_NORESERVE")
LOADERS_OWN = re.compile(r"mmap\(NULL, \d{4,5}, PROT_READ\|PROT_WRITE, MAP_PRIVATE\|MAP_ANONYMOUS, ")
# Names that programs make up.
TEMPORARY = re.compile(
    r"(?:\b(?:sort|cc|st|Gm|out\.mo\.|sed|zi|tmp_(?:obj|pack|idx)_|git-)|(?<=\.git/)t)[A-Za-z0-9]{6}\b"
)
# What is read there is never twice the same.
WATCHED = re.compile(r"\"(/dev/u?random|/proc/[^\"]*)\"")
MAPS = re.compile(r"\"/proc/(self|\d+)/maps\"")
RETURNS_PID = {"clone", "clone3", "fork", "vfork", "wait4", "waitid", "getpid", "gettid",
               "getppid", "getpgrp", "getpgid", "getsid", "setsid", "set_tid_address"}  # fmt: skip
STARTS = {"clone", "clone3", "fork", "vfork"}


@dataclasses.dataclass
class Run:
    """One run: what could be seen of it. streams: the lines of each thread, in tree order."""

    stdout: bytes
    stderr: bytes
    status: int
    files: dict
    streams: list = dataclasses.field(default_factory=list)
    own: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    faults: list = dataclasses.field(default_factory=list)


def files_below(place):
    """{path: (mode, content or link)} of all files there."""
    found = {}
    for path in sorted(place.rglob("*")):
        mode = path.lstat().st_mode
        content = b""
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = path.read_bytes()
        found[str(path.relative_to(place))] = (oct(mode), content)
    return found


class Trace:
    """The files strace -ff -i wrote, read along the tree of processes and threads."""

    def __init__(self, prefix, agent, run):
        self.agent = str(agent)
        self.run = run
        self.files = {int(p.suffix[1:]): p for p in prefix.parent.glob(prefix.name + ".*")}
        self.pids = "|".join(map(str, self.files))
        # Where a pid is one: what is equal to it elsewhere is another number.
        self.pid_fields = re.compile(
            r"(\b(?:(?:si_|l_)?pid|[a-z]+_tid(?:ptr)?)=\[?|/proc/|\\t|\"|\[|\()"
            rf"({self.pids})\b"
        )
        self.unread = set(self.files)
        if self.files:
            self.read(min(self.unread), [])
        # Whose parent's line was cut off by its death.
        while self.unread:
            self.read(min(self.unread), [])

    def read(self, pid, ranges):
        """ranges: the agent's code in this process, a list of (start, end)."""
        self.unread.discard(pid)
        stream, children, descriptors, watched = [], [], set(), {}
        self.run.streams.append(stream)
        lines = self.files[pid].read_text(errors="surrogateescape").splitlines()
        loading, starting, maps = None, False, None
        for line in lines:
            match = LINE.match(line)
            if not match:
                continue
            at, text = match.groups()
            call = CALL.match(text)
            result = RESULT.search(text)
            name = call[1] if call else ""
            value = result[1] if result else "?"
            if name == "execve" and value == "0":
                ranges, loading, starting = [], None, True
            elif name in STARTS and value.isdigit() and int(value) in self.unread:
                children.append((int(value), list(ranges)))
            if loading is not None:
                if name == "mmap" and value != "?":
                    size = int(call[2].split(", ")[1])
                    ranges.append((int(value, 16), int(value, 16) + size))
                elif name == "close":
                    loading = None
                continue
            if name == "openat" and f'"{self.agent}"' in text and value.isdigit() and not ranges:
                loading = value
                continue
            if name == "mprotect" and self.inside(call[2].split(",")[0], ranges):
                continue
            own = OWN_CALLS.get(name)
            if own is not None and self.inside(at, ranges) and re.match(own, call[2]):
                self.note_own(name, call[2], value, descriptors, text)
                continue
            if name in ("prlimit64", "munmap"):
                starting = False
            if starting and LOADERS_OWN.match(text):
                continue
            if name in ("open", "openat") and value.isdigit():
                path = WATCHED.search(text)
                watched[value] = path[1] if path else None
            if maps == "closed" and name == "munmap":
                continue
            maps = None if maps == "closed" else maps
            if maps is not None:
                if name == "close" and call[2].startswith(f"{maps})"):
                    maps = "closed"
                elif name in ("read", "lseek", "mmap", "munmap", "mremap"):
                    continue
            elif name in ("open", "openat") and MAPS.search(text):
                maps = value
            if name in ("read", "pread64") and watched.get(call[2].split(",")[0]):
                path = watched[call[2].split(",")[0]]
                text = re.sub(r"\".*\"(\.\.\.)?", path, text)
                if path.startswith("/proc"):
                    text = re.sub(r"= \d+$", "= N", text)
            if name == "munmap" and stream and ARENA.match(stream[-1]):
                continue
            stream.append(self.normalised(name, text))
        if descriptors:
            self.run.faults.append(f"left open by the agent: {sorted(descriptors)}")
        for child, known in children:
            if child in self.unread:
                self.read(child, known)

    @staticmethod
    def inside(address, ranges):
        if not ranges or "?" in address:
            return False
        number = int(address, 16)
        return any(start <= number < end for start, end in ranges)

    def note_own(self, name, arguments, value, descriptors, text):
        self.run.own[name] += 1
        if name.startswith("open") and value.isdigit():
            descriptors.add(value)
            if ".mgl" in text:
                self.run.own["session"] += 1
        elif name == "close":
            descriptors.discard(arguments.split(")")[0])

    def normalised(self, name, text):
        if name in RETURNS_PID:
            text = re.sub(r"= (?:[2-9]|\d\d+)$", "= PID", text)
            text = re.sub(r"= (?:[2-9]|\d\d+)( |$)", r"= PID\1", text)
        text = self.pid_fields.sub(r"\1PID", text)
        if name == "execve":
            text = re.sub(r"/\* \d+ vars? \*/", "/* vars */", text)
        if name == "wait4":
            text = re.sub(r"^(wait4\([^,]*), NULL,", r"\1, ADDRESS,", text)
        if name == "getrandom":
            text = re.sub(r"\(\".*?\"", "(RANDOM", text)
        if name in ("wait4", "getrusage"):
            text = re.sub(r"\{ru_[^}]*\}[^}]*\}[^}]*\}", "{USAGE}", text)
        if "statfs" in name:
            text = re.sub(r"(f_bfree|f_bavail|f_ffree)=\d+", r"\1=N", text)
        if name in ("clock_gettime", "futex"):
            text = re.sub(r"\{tv_sec=\d+, tv_nsec=\d+\}", "{TIME}", text)
        if "nanosleep" in name:
            text = re.sub(r", \{[^{]*\}\) =", ", {LEFT}) =", text)
        text = TEMPORARY.sub("TEMPORARY", text)
        if name == "rt_sigreturn":
            text = re.sub(r"= \d+$", "= RESTORED", text)
        if name == "sysinfo":
            text = re.sub(r"\{.*?\}", "{NOW}", text)
        if name in ("futex", "setpgid", "kill", "tgkill"):
            text = re.sub(rf", ({self.pids})\b", ", PID", text)
        text = re.sub(r"si_[us]time=\d+( /\*.*?\*/)?", "si_time", text)
        return re.sub(r" +", " ", ADDRESS.sub("ADDRESS", text))


PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
ELSEWHERE = ("go", "rustc", "cargo")


class Harness:
    """Runs commands in a folder that is made anew for each run, always at the same path."""

    def __init__(self, mallograph, agent, folder, runtime, prepare):
        self.mallograph = mallograph
        self.agent = agent
        self.folder = folder
        self.prepare = prepare
        self.place = folder / "place"
        self.runs = 0
        # With compilers that are elsewhere, and what they find their own files by.
        elsewhere = {os.path.dirname(found) for found in map(shutil.which, ELSEWHERE) if found}
        rustup = pathlib.Path.home() / ".rustup"
        self.environment = {
            "PATH": ":".join([PATH, *sorted(elsewhere - set(PATH.split(":")))]),
            **({"RUSTUP_HOME": str(rustup)} if rustup.exists() else {}),
            "HOME": str(self.place), "TMPDIR": str(self.place), "XDG_RUNTIME_DIR": str(runtime),
            "LANG": "C.UTF-8", "TZ": "UTC", "USER": "somebody", "TERM": "dumb", "PAGER": "cat",
            "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_DATE": "1000000000 +0000", "GIT_COMMITTER_DATE": "1000000000 +0000",
            "PERL_HASH_SEED": "0", "SOURCE_DATE_EPOCH": "1000000000",
        }  # fmt: skip

    def command(self, command, recorded, traced, number):
        words = [str(word) for word in command]
        self.trace = self.folder / f"trace{number}"
        if traced:
            words = ["strace", "-ff", "-q", "-i", "-s", "400", "-o", str(self.trace), *words]
        if recorded:
            tool = [str(self.mallograph), "-q", "-o", str(self.folder / f"{number}.mgl")]
            words = [*tool, *(["--not", "strace"] if traced else []), "--", *words]
        return words

    def run(self, case, recorded=False, traced=True):
        self.runs += 1
        if self.place.exists():
            shutil.rmtree(self.place)
        self.place.mkdir(mode=0o755)
        self.prepare(self.place)
        done = subprocess.run(
            self.command(case.words, recorded, traced, self.runs), cwd=self.place,
            env={**self.environment, **case.env}, input=case.stdin, capture_output=True,
            timeout=120, check=False,
        )  # fmt: skip
        run = Run(done.stdout, done.stderr, done.returncode, files_below(self.place))
        if traced:
            Trace(self.trace, self.agent, run)
            for path in self.folder.glob(self.trace.name + ".*"):
                path.unlink()
        ledger = self.folder / f"{self.runs}.mgl"
        ledger.unlink(missing_ok=True)
        return run


def counted(run, left_out):
    """Every line of all processes, with how often, but calls that are left out."""
    return collections.Counter(
        line
        for stream in run.streams
        for line in stream
        if (CALL.match(line) or [None, line.split(" ")[0]])[1] not in left_out
    )


def same_calls(bare, other, left_out):
    """In the same order, or, where some are left out, in whatever order."""
    if "calls" in left_out:
        return True
    if not left_out:
        return bare.streams == other.streams
    return counted(bare, left_out) == counted(other, left_out)


def changed(before, after):
    """Lines that are not the same, of a text or a number."""
    texts = [
        value.decode(errors="replace").splitlines() if isinstance(value, bytes) else [str(value)]
        for value in (before, after)
    ]
    lines = difflib.unified_diff(*texts, "bare", "recorded", lineterm="", n=0)
    return [f"  {line[:200]}" for line in lines][:40]


def differences(bare, other, case):
    """Lines that tell what is not the same, but the calls."""
    found = []
    for what in ("stdout", "stderr", "status"):
        before, after = getattr(bare, what), getattr(other, what)
        if what not in case.without and case.scrubbed(before) != case.scrubbed(after):
            found += [what, *changed(before, after)]
    if "files" not in case.without:
        for name in sorted(set(bare.files) | set(other.files)):
            before, after = bare.files.get(name), other.files.get(name)
            if before != after and name not in case.without:
                found.append(f"file {name}: bare {before!r:.300}, recorded {after!r:.300}")
    return found + other.faults


def call_differences(bare, other, left_out):
    before, after = counted(bare, left_out), counted(other, left_out)
    lines = [f"  bare only      {n}x {line[:300]}" for line, n in (before - after).items()]
    lines += [f"  recorded only  {n}x {line[:300]}" for line, n in (after - before).items()]
    return lines or ["  the same calls in another order"]
