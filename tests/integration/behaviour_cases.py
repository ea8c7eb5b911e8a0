"""Programs of the system, each with something to do: the table of test_behaviour.py.

A case is (name, command). Core cases are make check's, all others check-full's. A command is split
as a shell would; {programs} is where the build has the tests' programs. What varies from one bare
run to the next is named in `without`, with the reason beside it: stdout, stderr, status, files,
the name the name of a file, the name of a system call, what strace prints for a signal (---) and an end
(+++), and order: that of calls, which is not compared either where some calls are left out."""

import dataclasses
import gzip
import io
import os
import re
import shlex
import shutil
import tarfile
import zipfile

WHEN = 1000000000


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    command: str
    stdin: bytes = b""
    env: dict = dataclasses.field(default_factory=dict)
    core: bool = False
    without: dict = dataclasses.field(default_factory=dict)
    scrub: tuple = ()
    # Not where the program itself traces others.
    traced: bool = True

    @property
    def words(self):
        return shlex.split(self.command)

    @property
    def program(self):
        """The base name of what is run."""
        return os.path.basename(self.words[0])

    def for_build(self, build):
        programs = str(build / "tests" / "programs")
        return dataclasses.replace(
            self, command=self.command.replace("{programs}", programs),
            env={name: value.replace("{programs}", programs) for name, value in self.env.items()})

    def there(self, path):
        return shutil.which(self.words[0], path=path) is not None

    def scrubbed(self, text):
        if isinstance(text, bytes):
            for pattern in self.scrub:
                text = re.sub(pattern, b"", text)
        return text


def prepare(place):
    """The files every command finds: the same names, content and times in each run."""
    text = "".join(f"line {i * 7919 % 211} of text, word{i}\n" for i in range(300))
    files = {
        "words": text, "other": text.replace("word7", "WORD7"), "empty": "",
        "numbers": "".join(f"{i * 7919 % 1009}\n" for i in range(500)),
        "sorted": "".join(f"{i:04}\n" for i in range(200)),
        "table.csv": "".join(f"{i},name{i % 7},{i * i}\n" for i in range(100)),
        "data.json": '{"a": [1, 2, {"b": null}], "c": "text"}\n',
        "pairs": "a b\nb c\nc d\n", "old/one": "1\n", "old/two": "2\n", "new/one": "1\n",
        "new/two": "3\n", "hello.c": "#include <stdio.h>\nint main(void) { puts(\"hello\"); }\n",
        "plus.cc": "#include <vector>\nint main() { return std::vector<int>(3, 0)[1]; }\n",
        "Makefile": "all: one two\none two:\n\techo $@ > $@\n",
        "script.sh": "set -e\nfor i in 1 2 3; do echo $i | tr 1 x; done\n(exit 3) || echo $?\n",
        "run.py": "import json, os, sys, threading\n"
                  "print(sorted(os.environ), os.getcwd(), sys.argv)\n"
                  "t = threading.Thread(target=lambda: [str(i) for i in range(1000)])\n"
                  "t.start(); t.join()\nprint(len(json.dumps(list(range(1000)))))\n",
        "page.1": ".TH PAGE 1\n.SH NAME\npage \\- a page\n",
        "text.po": 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
                   'msgid "a"\nmsgstr "b"\n',
    }  # fmt: skip
    for name, content in files.items():
        path = place / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    (place / "words.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    with tarfile.open(place / "tree.tar", "w") as tar:
        for name in ("old/one", "old/two"):
            info = tarfile.TarInfo(name)
            info.size, info.mtime = 2, WHEN
            tar.addfile(info, io.BytesIO(b"1\n"))
    with zipfile.ZipFile(place / "tree.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("one", (2001, 9, 9, 1, 46, 40)), text)
    (place / "link").symlink_to("words")
    for path in sorted(place.rglob("*"), reverse=True):
        path.chmod(0o755 if path.is_dir() else 0o644) if not path.is_symlink() else None
        os.utime(path, (WHEN, WHEN), follow_symlinks=False)


def core(name, command, **more):
    return Case(name, command, core=True, **more)


NODE = dict.fromkeys(
    ["futex", "munmap", "mmap", "mprotect", "madvise", "read", "write", "epoll_pwait", "epoll_wait",
     "sched_yield", "openat", "close", "fcntl", "gettid", "prlimit64", "brk", "mremap"],
    "which of its threads comes first")  # fmt: skip
# Lines of /proc/self/maps, and the loader's, that are the agent's.
OURS = (rb"object \S*/libmallograph-agent\.so\n",
        rb"mapping r[-x]{2}p \S*/libmallograph-agent\.so\n",
        rb"mapping rw-s \S*/mallograph/\d+-\d+\.mgl\n")  # fmt: skip
ADDRESSES = rb" \(0x[0-9a-f]+\)"
LDD = {**dict.fromkeys(["read", "write", "writev"], "addresses, and how much a pipe has"),
       **dict.fromkeys(["wait4", "rt_sigreturn"], "when a child ends")}
PROC = {"read": "from /proc: pids, addresses, memory", "write": "what was read there"}
MIRRORS = [
    core("mirror", "{programs}/mirror"),
    core("mirror-proc", "{programs}/mirror proc", without=PROC, scrub=OURS),
    core("mirror-proc-worked", "{programs}/mirror work map fork exec proc", without=PROC,
         scrub=OURS),
    core("mirror-worked", "{programs}/mirror work map"),
    core("mirror-fork", "{programs}/mirror work fork work"),
    core("mirror-exec", "{programs}/mirror work exec fork exec work"),
    core("mirror-closed", "{programs}/mirror close work"),
    core("mirror-no-descriptors", "sh -c 'exec {programs}/mirror <&- 2>&-'"),
    core("mirror-signals", "sh -c 'trap \"\" INT HUP USR1; exec {programs}/mirror work'"),
    core("mirror-limits", "sh -c 'ulimit -n 60; ulimit -c 0; umask 027; exec {programs}/mirror'"),
    core("mirror-empty", "env -i {programs}/mirror work"),
    core("mirror-argument", "env A= 'B=x y' sh -c 'exec {programs}/mirror \"a\nb\" \"\" c'"),
    core("mirror-directory", "sh -c 'cd old && rm ../words && exec {programs}/mirror'"),
    core("mirror-priority", "nice -n 3 nohup setsid -w {programs}/mirror"),
    core("mirror-no-new-privileges", "setpriv --no-new-privs --pdeathsig TERM {programs}/mirror"),
    core("mirror-personality", "setarch -R {programs}/mirror"),
    core("mirror-niced", "ionice -c 3 chrt -b 0 taskset 1 {programs}/mirror"),
    core("mirror-utf8", "env LC_ALL=C.UTF-8 TZ=Europe/Berlin {programs}/mirror"),
    core("mirror-shell", "bash -c '{programs}/mirror fork; ({programs}/mirror work)'"),
    core("mirror-python", "python3 -c 'import os; os.execl(\"{programs}/mirror\", \"x\", \"map\")'"),
    core("mirror-popen", "python3 -c 'import subprocess as s; s.run([\"{programs}/mirror\"])'"),
]

COREUTILS = [
    Case("[", "[ -f words ]"), Case("arch", "arch"), Case("b2sum", "b2sum words"),
    Case("base32", "base32 words"), Case("base64", "base64 -d", stdin=b"aGVsbG8K"),
    Case("basename", "basename /a/b.c .c"), Case("basenc", "basenc --base16 words"),
    core("cat", "cat words -", stdin=b"in\n"), Case("chcon", "chcon x words"),
    Case("chgrp", "chgrp 0 words"), Case("chmod", "chmod -v 600 words"),
    Case("chown", "chown -h 0 link"), Case("chroot", "chroot / /bin/echo x"),
    Case("cksum", "cksum words"), Case("comm", "comm sorted words"),
    core("cp", "cp -a old copy"), Case("csplit", "csplit words 10 20"),
    Case("cut", "cut -d, -f2 table.csv"), Case("date", "date -d @1000000000"),
    Case("dd", "dd if=words of=out bs=1k count=3 status=none"),
    Case("df", "df --output=target ."), Case("dir", "dir -l old"),
    Case("dircolors", "dircolors -b"), Case("dirname", "dirname /a/b/c"),
    Case("du", "du -ab"), Case("echo", "echo a b"), core("env", "env"),
    Case("env-exec", "env -u HOME A=1 sh -c 'echo $A$HOME'"), Case("expand", "expand words"),
    Case("expr", "expr 6 '*' 7"), Case("factor", "factor 123456789012"), core("false", "false"),
    Case("fmt", "fmt -w 40 words"), Case("fold", "fold -w 20 words"), Case("groups", "groups"),
    Case("head", "head -n 3 words"), Case("hostid", "hostid"), Case("id", "id"),
    Case("install", "install -m 700 -D words a/b/c"), Case("join", "join -t, table.csv table.csv"),
    Case("link", "link words hard"), Case("ln", "ln -sv words soft"), Case("logname", "logname"),
    Case("ls", "ls -lR --time-style=full-iso"), Case("md5sum", "md5sum words numbers"),
    Case("mkdir", "mkdir -pv a/b/c"), Case("mkfifo", "mkfifo pipe"),
    Case("mknod", "mknod pipe p"), Case("mktemp", "mktemp -u --suffix=x",
                                        without={"stdout": "a random name",
                                                 "newfstatat": "of a random name",
                                                 "write": "a random name"}),
    Case("mv", "mv -v words elsewhere"), Case("nice", "nice -n 5 nice"), Case("nl", "nl words"),
    Case("nohup", "nohup echo x"), Case("nproc", "nproc"),
    Case("numfmt", "numfmt --to=iec 123456 99999999"), Case("od", "od -c words"),
    Case("paste", "paste numbers words"), Case("pathchk", "pathchk -p a/b"),
    Case("pinky", "pinky -l root"), Case("pr", "pr -h head words",
                                         scrub=(rb"\d\d\d\d-\d\d-\d\d \d\d:\d\d",)),
    Case("printenv", "printenv"), Case("printf", "printf '%s %05d\\n' a 7"),
    Case("ptx", "ptx pairs"), Case("pwd", "pwd"), Case("readlink", "readlink -f link"),
    Case("realpath", "realpath old/../link"), Case("rm", "rm -rv old"),
    Case("rmdir", "rmdir old"), Case("runcon", "runcon"), Case("seq", "seq 1 3 1000"),
    Case("sha1sum", "sha1sum words"), Case("sha224sum", "sha224sum words"),
    Case("sha256sum", "sha256sum words"), Case("sha384sum", "sha384sum words"),
    Case("sha512sum", "sha512sum words"),
    Case("shred", "shred -n 1 --random-source=numbers words"),
    Case("shuf", "shuf --random-source=words numbers"), Case("sleep", "sleep 0.01"),
    core("sort", "sort -n numbers"), Case("sort-parallel", "sort --parallel=1 -S 20K words"),
    Case("split", "split -n 4 words"), Case("stat", "stat -c '%n %s %a %F' words old"),
    core("stdbuf", "stdbuf -oL tr a-z A-Z", stdin=b"some\nlines\n"),
    Case("stty", "stty -a"), Case("sum", "sum words"), Case("sync", "sync words"),
    Case("tac", "tac words"), Case("tail", "tail -n 5 words"),
    Case("tee", "tee one two", stdin=b"text\n"), Case("test", "test -d words"),
    Case("timeout", "timeout 10 echo x"),
    core("timeout-kills", "timeout 0.2 sleep 10"), Case("touch", "touch -d @5 words new-one"),
    core("tr", "tr a-z A-Z", stdin=b"hello\n"), core("true", "true"),
    Case("truncate", "truncate -s 10 words"), Case("tsort", "tsort pairs"), Case("tty", "tty"),
    core("uname", "uname -a"), Case("unexpand", "unexpand -a words"),
    Case("uniq", "uniq -c words"), Case("unlink", "unlink words"), Case("users", "users"),
    Case("vdir", "vdir old"), Case("wc", "wc words numbers"), Case("who", "who"),
    Case("whoami", "whoami"), Case("yes", "sh -c 'yes | head -n 5'",
                                   without=dict.fromkeys(["---", "+++", "write", "read"],
                                                                 "who ends first")),
]  # fmt: skip

GIT = ("git init -q . && git -c user.name=a -c user.email=b@c commit -q --allow-empty -m one && "
       "git add words old && git -c user.name=a -c user.email=b@c commit -q -m two && git log "
       "--stat && git status --short")  # fmt: skip

OTHERS = [
    Case("git", "git --version"), Case("git-commit", f"sh -c '{GIT}'",
                                            without={".git/index": "inodes and times",
                                                     "read": "of the index", "write": "the index"}),
    Case("git-diff", "git diff --no-index --stat old new"),
    Case("git-hash", "git hash-object words"),
    core("python3", "python3 run.py a b", without={"futex": "who takes a lock first",
                                                     "mmap": "of the thread's own arena"}), Case("python3-warn", "python3 -c 'raise SystemExit(3)'"),
    core("python3-huge-environment", "python3 -c 'import os; os.system(\"echo x\"); os.popen(\"env >file; echo y\")"
         ".read(); os.execlp(\"true\", \"true\")'", env={f"V{n}": "v\n" * 1000 for n in range(100)}),
    Case("python3-sub", "python3 -c 'import os; print(os.popen(\"ls old\").read())'"),
    core("perl", "perl -e 'print map { \"$_\\n\" } sort keys %ENV; system(\"echo x\"); exit 5'"),
    Case("perl-sort", "perl -ne 'push @a, $_; END { print sort @a }' words"),
    core("tar", "tar cf out.tar --sort=name old new"), Case("tar-gz", "tar tzvf -",
                                                            stdin=gzip.compress(b"\0" * 1024)),
    Case("tar-x", "tar xvf tree.tar -C new"), core("xz", "xz -k words"),
    Case("xz-threads", "xz -T2 -k words", without={"futex": "who waits for whom"}), core("gzip", "gzip -nk other"),
    Case("gunzip", "gunzip -c words.gz"), Case("zcat", "zcat words.gz"),
    Case("bzip2", "bzip2 -k words"), Case("zstd", "zstd -q -k words", without={"futex": "who ends first"}),
    Case("lz4", "lz4 -q words out.lz4"), Case("zip", "zip -q -X out.zip words"),
    Case("unzip", "unzip -o tree.zip"), core("gcc", "gcc -O1 -o hello hello.c", without={"getrandom": "more names until one is new"}),
    Case("gcc-fails", "gcc -fsyntax-only words"), Case("g++", "g++ -c plus.cc", without={"brk": "its collector goes by addresses"}),
    Case("cpp", "cpp hello.c"), Case("as", "as --version"), Case("ld", "ld --version"),
    core("ssh-keygen", "ssh-keygen -q -t ed25519 -N '' -f key",
         without={"key": "a new key", "key.pub": "a new key", "write": "a new key"}),
    Case("ssh", "ssh -V"), core("sqlite3", "sqlite3 db", stdin=b"create table t(a, b);\n"
                                b"insert into t values(1, 2);\nselect * from t;\n",
         without={"pwrite64": "a random number in the journal"}),
    core("node", "node -e 'console.log(Object.keys(process.env).sort())'", without=NODE),
    core("jq", "jq .a data.json"), Case("sed", "sed s/line/LINE/ words"),
    Case("sed-i", "sed -i s/line/LINE/ words"), Case("awk", "awk '{ n += $2 } END { print n }' words"),
    Case("awk-pipe", "awk 'BEGIN { while ((\"ls old\" | getline l) > 0) print l }'",
         without={"order": "when a child ends"}),
    core("grep", "grep -n word7 words"), Case("egrep", "egrep 'a|b' pairs"),
    Case("fgrep", "fgrep -c word words"), core("find", "find . -name 'o*' -print"),
    Case("find-exec", "find old -type f -exec wc -c {} ;"),
    Case("xargs", "xargs -n 2 echo", stdin=b"a b c d e\n"), Case("diff", "diff -u words other"),
    Case("diff-r", "diff -r old new"), Case("diff3", "diff3 words other words"),
    Case("sdiff", "sdiff old/two new/two"), Case("cmp", "cmp words other"),
    Case("patch", "patch --version"), core("make", "make -s"), Case("make-j", "make -sj2"),
    core("bash", "bash script.sh"), Case("bash-set", "bash -c 'set; ulimit -a; umask; declare -x'",
                                         without={"write": "has the parent's pid"},
                                         scrub=(rb"(?:BASHPID|PPID|SRANDOM|RANDOM)=\S*",)),
    core("dash", "dash script.sh"), core("sh-kill", "sh -c 'kill -TERM $$'"),
    Case("sh-abort", "sh -c 'kill -ABRT $$'"),
    Case("sh-trap", "sh -c 'trap \"echo got\" USR1; kill -USR1 $$; echo end'"),
    Case("sh-ulimit", "sh -c 'ulimit -a; umask; set'", scrub=(rb"PPID=\S*",),
         without={"write": "has the parent's pid"}),
    Case("bash-pipe", "bash -c 'cat words | sort | tail -n 2; echo ${PIPESTATUS[@]}'",
         without=dict.fromkeys(["read", "lseek", "write"], "how much a pipe has")),
    Case("bash-coproc", "bash -c 'coproc cat; echo x >&${COPROC[1]}; read a <&$COPROC; echo $a'"),
    Case("openssl", "openssl dgst -sha256 words"),
    Case("openssl-enc", "openssl enc -aes-128-cbc -K 00 -iv 00 -in words -out out"),
    Case("openssl-list", "openssl list -digest-algorithms"),
    core("curl", "curl -s file:///proc/version"), Case("wget", "wget --version"),
    Case("redis-cli", "redis-cli --version"), Case("redis-server", "redis-server --version"),
    Case("gdb", "gdb -nx -batch -ex 'print 6*7'", without={"order": "threads",
                                                           "futex": "threads"}),
    Case("gdb-run", "gdb -nx -batch -ex run --args echo x", traced=False,
         scrub=(rb"process \d+",)),
    Case("strace", "strace -f -o /dev/null sh -c 'ls old'", traced=False),
    Case("strace-out", "strace -e trace=openat echo x", traced=False,
         without={"stderr": "shows how the agent is loaded"}),
    core("ldd", "ldd /bin/ls", without=LDD, scrub=(ADDRESSES,)),
    Case("ldd-verbose", "ldd -v /bin/ls", without={"order": "children", **LDD}, scrub=(ADDRESSES,)),
    Case("readelf", "readelf -h /bin/ls"),
    Case("objdump", "objdump -f /bin/ls"), Case("nm", "nm -D /bin/ls"),
    Case("strings", "strings -n 20 /bin/true"), Case("size", "size /bin/ls"),
    Case("ar", "ar rcD out.a words numbers"), Case("ranlib", "ranlib --version"),
    Case("strip", "strip -o out /bin/true"), Case("objcopy", "objcopy /bin/true out"),
    Case("c++filt", "c++filt _ZN3foo3barEv"), Case("addr2line", "addr2line -e /bin/ls 0x4000"),
    Case("dpkg-query", "dpkg-query -W dpkg"), Case("dpkg", "dpkg --print-architecture"),
    Case("apt-cache", "apt-cache policy dpkg", without={"order": "children"}), Case("apt-config", "apt-config dump"),
    Case("man", "man -P cat ./page.1", without=dict.fromkeys(
        ["pselect6", "wait4", "read", "write", "rt_sigreturn", "---"], "how a pipeline takes turns")),
    Case("bc", "bc -q", stdin=b"scale=50; 4*a(1)\n2^200\n"),
    Case("ed", "ed -s words", stdin=b"1,3p\nw out\nq\n"), Case("m4", "m4", stdin=b"define(a,b)a\n"),
    Case("tclsh", "tclsh", stdin=b"puts [expr 6*7]\n"), Case("file", "file words /bin/ls"),
    Case("hexdump", "hexdump -C numbers"), Case("xxd", "xxd words"), Case("col", "col -b", stdin=b"a\bb\n"),
    Case("column", "column -t pairs"), Case("rev", "rev words"), Case("look", "look 00 sorted"),
    Case("getopt", "getopt ab: -a -b x y"), Case("flock", "flock lock echo x"),
    Case("setsid", "setsid -w echo x"), Case("script", "script -qc 'echo x' typed",
                                             without=dict.fromkeys(
                                                 ["typed", "poll", "read", "write"],
                                                 "has the time, a pid")),
    Case("less", "less words"), Case("more", "more words"), Case("ps", "ps -o comm= -p 1", without={"calls": "it looks at all processes"}),
    Case("free", "free --version"), Case("pgrep", "pgrep -V"),
    Case("ip", "ip -o link show lo", without=dict.fromkeys(
        ["getsockname", "sendmsg", "recvmsg"], "sequence numbers from the time")), Case("gpg", "gpg --version"), Case("gpgv", "gpgv --version"),
    Case("msgfmt", "msgfmt -o out.mo text.po"), Case("psql", "psql --version"),
    Case("vim", "vim -es -u NONE -c '%s/line/LINE/' -c 'wq' words",
         without={"write": "pid and time in the swap file"}),
    Case("tmux", "tmux -V"), Case("java", "java -version", without={"calls": "many threads"}), Case("go", "sh -c 'go version; go env GOOS'", without={"calls": "many threads", "files": "its telemetry"}),
    Case("rustc", "rustc --version", without={"munmap": "arenas, by address"}), Case("valgrind", "valgrind --version"),
    Case("getent", "getent passwd root"), Case("iconv", "iconv -f UTF-8 -t UTF-16 words"),
    Case("locale", "locale"), Case("getconf", "getconf -a", scrub=(rb"_AVPHYS_PAGES.*",)), Case("ldconfig", "sh -c 'ldconfig -p'"),
    Case("mawk", "mawk '{ print $1 }' words"), Case("tput", "tput -T xterm cols"),
    Case("infocmp", "infocmp xterm"), Case("run-parts", "run-parts --test old"),
    Case("debconf", "debconf-show debconf"), Case("hostname", "hostname"),
    Case("mount", "mount --version"), Case("lsblk", "lsblk --version"),
    Case("login", "getent group root"), Case("meson", "meson --version", without=dict.fromkeys(
        ["mmap", "munmap"], "it groups its arenas by address")),
    Case("ninja", "ninja --version"), Case("pkg-config", "pkg-config --modversion sqlite3"),
    Case("nginx", "nginx -v"), Case("xsltproc", "xsltproc --version"),
]  # fmt: skip

PYTHON = {
    "asyncio": "import asyncio\nasync def f(i):\n    p = await asyncio.create_subprocess_exec('true')\n"
               "    return await p.wait()\nprint(asyncio.run(f(1)))",
    "pool": "import multiprocessing as m\n"
            "if __name__ == '__main__': print(sum(m.Pool(2).map(abs, range(-50, 50))))",
    "spawn": "import os; print(os.waitpid(os.posix_spawn('/bin/echo', ['echo', 'x'], os.environ), 0)[1])",
    "fork": "import os\np = os.fork()\nif not p: os._exit(4)\nprint(os.waitpid(p, 0)[1] >> 8)",
    "signal": "import signal, os\nsignal.signal(10, lambda *a: print('got'))\nos.kill(os.getpid(), 10)",
    "alarm": "import signal, time\nsignal.setitimer(0, 0.05)\ntime.sleep(5)",
    "sqlite": "import sqlite3\nd = sqlite3.connect('db')\nd.execute('create table t(a)')\n"
              "d.executemany('insert into t values(?)', [(i,) for i in range(999)])\nd.commit()\n"
              "print(d.execute('select sum(a) from t').fetchone())",
    "zlib": "import zlib, lzma, bz2\nd = open('words', 'rb').read()\n"
            "print(*(len(m.compress(d)) for m in (zlib, lzma, bz2)))",
    "ctypes": "import ctypes\nlibc = ctypes.CDLL(None)\nprint(libc.abs(-3), libc.strlen(b'four'))",
    "mmap": "import mmap\nm = mmap.mmap(-1, 1 << 20)\nm[:3] = b'abc'\nprint(m[:4])",
    "exec": "import os; os.execv('/bin/echo', ['echo', 'y'])",
    "recursion": "def f(n): return f(n - 1)\ntry: f(1)\nexcept RecursionError: print('deep')",
    "abort": "import os; os.abort()",
}  # fmt: skip
PYTHON_VARIES = {
    "asyncio": {"calls": "who ends first"}, "pool": {"calls": "who takes what"},
    "alarm": {"clock_nanosleep": "what is left", "---": "the same"},
    "sqlite": {"pwrite64": "a random number in the journal"},
}  # fmt: skip
# Languages and tools whose programs take a while: a second or more a run.
LANGUAGES = [
    *(Case(f"python3-{name}", f"python3 -c {shlex.quote(text)}", without=PYTHON_VARIES.get(name, {}))
      for name, text in PYTHON.items()),
    Case("gcc-lto", "gcc -O2 -flto=2 -o hello hello.c", without={"calls": "who of make's is first",
                                                                  "hello": "a random seed"}),
    Case("gcc-gold", "gcc -fuse-ld=gold -o hello hello.c", without={"order": "children"}),
    Case("gcc-shared", "gcc -g -O2 -shared -fPIC -o libhello.so hello.c", without={"getrandom": "names"}),
    Case("gcc-run", "sh -c 'gcc -g -o hello hello.c && ./hello && gdb -nx -batch -ex \"info line main\" hello'",
         without={"calls": "threads of gdb"}),
    Case("g++-run", "sh -c 'g++ -O1 -o plus plus.cc && ./plus'", without={"calls": "addresses"}),
    Case("clang", "clang -O1 -o hello hello.c", without={"calls": "threads, addresses",
                                                         "files": "addresses"}),
    Case("rustc-run", "sh -c 'echo \"fn main() { println!(\\\"{}\\\", vec![1, 2].len()); }\" > a.rs && "
         "rustc -O a.rs && ./a'", without={"calls": "threads", "a": "the folder's name"}),
    Case("cargo", "sh -c 'cargo init -q --vcs none --name one one && cd one && cargo build -q --offline "
         "&& target/debug/one'", without={"calls": "threads", "files": "times in what it builds"}),
    Case("go-run", "sh -c 'echo \"package main; import \\\"fmt\\\"; func main() { fmt.Println(42) }\" > a.go "
         "&& go run a.go'", env={"GOFLAGS": "-mod=mod", "GOCACHE": "{programs}/../go-cache"},
         without={"calls": "threads", "files": "its cache"}),
    Case("javac", "sh -c 'echo \"class A { public static void main(String[] a) { System.out.println(6 * 7); } }\""
         " > A.java && javac A.java && java -XX:+UseSerialGC A'", without={"calls": "threads"}),
    Case("node-workers", "node -e \"const { Worker } = require('worker_threads'); for (let i = 0; i < 3; i++) "
         "new Worker('require(\\'worker_threads\\').parentPort.postMessage([...Array(9999).keys()].length)',"
         " { eval: true }).on('message', (m) => console.log(m));\"", without={"calls": "threads"}),
    Case("node-child", "node -e \"console.log(require('child_process').execFileSync('ls', ['old']).toString())\"",
         without={"calls": "threads"}),
    Case("npm", "npm --version", without={"calls": "threads", "files": "its log"}),
    Case("perl-threads", "perl -Mthreads -e 'print join(\",\", map { $_->join } map { my $n = $_; "
         "threads->create(sub { $n * 2 }) } 1 .. 4), \"\\n\"'", without={"calls": "threads"}),
    Case("perl-fork", "perl -e 'open(my $p, \"-|\", \"ls\", \"old\"); print <$p>; close $p; "
         "exec(\"true\") if fork == 0; wait; print $? >> 8, \"\\n\"'", without={"order": "children"}),
    Case("openssl-req", "openssl req -x509 -newkey rsa:1024 -nodes -keyout key -out cert -subj /CN=x -batch",
         without=dict.fromkeys(["stdout", "stderr", "calls", "key", "cert"], "a new key")),
    Case("openssl-speed", "openssl prime -generate -bits 64", without={"stdout": "a new prime", "calls": "the same"}),
    Case("ssh-keygen-rsa", "sh -c 'ssh-keygen -q -t rsa -b 1024 -N \"\" -f key && ssh-keygen -y -f key | wc -l'",
         without={"key": "a new key", "key.pub": "a new key", "calls": "the same"}),
    Case("ssh-keygen-find", "ssh-keygen -F host -f words"), Case("curl-version", "curl --version"),
    Case("curl-fails", "curl -sS http://127.0.0.1:1/", without={"calls": "threads", "stderr": "the time it took"}),
    Case("git-clone", "sh -c 'git init -q a && cd a && git -c user.name=a -c user.email=b@c commit -q "
         "--allow-empty -m one && cd .. && git clone -q a b && git -C b gc -q && git -C b fsck'",
         without={"calls": "children", "files": "times in the index"}),
    Case("sqlite3-script", "sqlite3 :memory:", stdin=b"with recursive n(i) as (values(1) union all select i + 1 "
         b"from n where i < 9999) select sum(i), max(i), group_concat(i % 7) from n where i < 20;\n"
         b"create table t(a, b); insert into t values(1, 'x'); create index i on t(b); explain query plan "
         b"select * from t where b = 'x'; .dump\n"),
    Case("cmake", "cmake --version"), Case("dwz", "dwz --version"),
    Case("fakeroot", "fakeroot sh -c 'chown 7 words; stat -c %u words'", without={"calls": "a daemon"}),
    Case("mkfs", "sh -c 'truncate -s 4M disk && mkfs.ext4 -q -U clear -E hash_seed=00000000-0000-0000-0000-"
         "000000000000 disk && e2fsck -fn disk'", without={"calls": "the time", "disk": "the time"}),
    Case("dpkg-deb", "dpkg-deb --help"), Case("pstree", "pstree -V"), Case("vmstat", "vmstat -V"),
    Case("lsof", "lsof -v"), Case("fc-list", "fc-list --version"), Case("pip", "/usr/bin/pip3 --version", without={"order": "a thread"}),
    Case("ss", "ss -V"), Case("convert", "convert -size 20x20 xc:red -depth 8 out.ppm", without={"calls": "threads"}),
    Case("tar-compress", "tar --use-compress-program='gzip -n' -cf out.tgz --sort=name old",
         without={"order": "children", "read": "how much a pipe has", "write": "the same"}),
    Case("tar-xz", "tar cJf out.txz --sort=name old new", without={"order": "children", "futex": "threads",
                                                                   "read": "how much a pipe has", "write": "the same"}),
    Case("sort-compress", "sort -S 10K --compress-program=gzip words", without={"calls": "children"}),
    Case("xargs-parallel", "xargs -P 3 -n 1 true", stdin=b"a b c d e f\n", without={"calls": "children"}),
    Case("find-plus", "find old new -type f -exec cat {} +"), Case("make-shell", "make -s -f - all", stdin=b"X := $(shell ls old)\nall:\n"
         b"\t@echo $(X); (exit 0) | cat\n", without={"order": "children"}),
    Case("bash-jobs", "bash -c '(exit 1) & a=$!; (exit 2) & wait $!; echo $?; wait $a; echo $?'",
         without={"calls": "children"}),
    Case("bash-substitute", "bash -c 'diff <(sort words) <(sort other) | head -n 3; cat <<< x; exec 3<>pipe3; echo y >&3'",
         without={"calls": "children"}),
    Case("bash-segv", "bash -c 'ulimit -c 0; bash -c \"kill -SEGV \\$\\$\"; echo $?'", without={"write": "has a pid"},
         scrub=(rb"line \d+: +\d+ ",)),
    Case("sh-orphan", "sh -c '(sleep 0.1; echo late > late) & echo early; wait'", without={"order": "children"}),
    Case("sh-exec-chain", "sh -c 'exec sh -c \"exec env A=1 sh -c \\\"exec printenv A\\\"\"'"),
    Case("awk-system", "mawk 'BEGIN { system(\"echo x; exit 3\"); print \"y\" | \"cat\" }'", without={"order": "children"}),
    Case("gdb-disassemble", "gdb -nx -batch -ex 'disassemble main' {programs}/mirror", without={"calls": "threads"}),
    Case("strace-count", "strace -c -o count true", traced=False, without={"count": "times, and the agent's calls"}),
    Case("valgrind-run", "valgrind -q {programs}/small out", traced=False, without={"out": "pids"}),
    Case("llvm-symbolizer", "llvm-symbolizer --obj=/bin/true 0x1000", without={"calls": "threads"}),
    Case("loader-verifies", "sh -c '/lib64/ld-linux-x86-64.so.2 --verify /bin/true; echo $?'"),
    Case("loader-runs", "/lib64/ld-linux-x86-64.so.2 /bin/echo x"),
]  # fmt: skip

CASES = MIRRORS + COREUTILS + OTHERS + LANGUAGES
