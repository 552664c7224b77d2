"""What is in the image, as data; the reasons for what is left out are in docs/design/image.md."""

from __future__ import annotations

from dataclasses import dataclass

SUITE = "bookworm"
PYTHON = "3.11"
#: Packages of that suite; a test looks whether every shared library that anything asks for is among them.
PACKAGES = (
    "base-files",
    "ca-certificates",
    "libbz2-1.0",
    "libc6",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libsqlite3-0",
    "libssl3",
    "libstdc++6",
    "python3.11-minimal",
    "tzdata",
    "zlib1g",
)

#: Where what is not Debian's goes; Debian's Python looks there first.
SITE = f"usr/local/lib/python{PYTHON}/dist-packages"
STANDARD_LIBRARY = f"usr/lib/python{PYTHON}"

#: Paths of packages that nothing reads at run time, as patterns where `*` also matches slashes.
NOT_OF_PACKAGES = (
    "etc/*",
    "usr/bin/[!p]*",
    "usr/bin/pdb*",
    "usr/bin/py3versions",
    "usr/games*",
    "usr/include*",
    "usr/lib/*/gconv*",
    "usr/lib/*/audit*",
    "usr/lib/*/engines-3*",
    "usr/lib/*/ossl-modules*",
    "usr/lib/binfmt.d*",
    "usr/lib/valgrind*",
    "usr/sbin*",
    "usr/share/apps*",
    "usr/share/base-files*",
    "usr/share/bug*",
    "usr/share/dict*",
    "usr/share/ca-certificates*",
    "usr/share/doc*",
    "usr/share/gcc*",
    "usr/share/gdb*",
    "usr/share/info*",
    "usr/share/lintian*",
    "usr/share/man*",
    "usr/share/misc*",
    "usr/share/pixmaps*",
    "usr/share/applications*",
    "usr/share/binfmts*",
    "usr/share/zoneinfo/right*",
    "usr/share/zoneinfo/posix*",
    "usr/share/zoneinfo/*.zi",
    "usr/local*",
    "var*",
    *(
        f"{STANDARD_LIBRARY}/{name}*"
        for name in (
            "config-", "curses", "dbm", "distutils", "ensurepip", "idlelib", "lib2to3", "lib-dynload/_crypt",
            "lib-dynload/_curses", "lib-dynload/_dbm", "lib-dynload/_test", "lib-dynload/_uuid", "lib-dynload/_xx",
            "lib-dynload/nis", "lib-dynload/ossaudiodev", "lib-dynload/readline", "lib-dynload/spwd", "lib-dynload/xx",
            "pydoc_data", "sitecustomize", "test", "tkinter", "turtle", "venv",
        )
    ),
)  # fmt: skip

#: Kept of what these patterns name: what licences ask for, and what scanners read.
KEPT_OF_PACKAGES = ("usr/share/doc/*/copyright", "var/lib/dpkg/status.d/*")

#: Distributions of requirements.lock that the programs never import: what builds a package, and what OR-tools
#: declares for its pandas interface.
NOT_OF_LOCK = (
    "editables", "hatchling", "packaging", "pandas", "pathspec", "pluggy", "python-dateutil", "tomlkit",
    "trove-classifiers", "tzdata",
)  # fmt: skip

#: Paths of wheels that nothing reads at run time.
NOT_OF_WHEELS = (
    "bin*",
    "*/RECORD",
    "*/REQUESTED",
    "*/INSTALLER",
    "*.a",
    "*.c",
    "*.cc",
    "*.cpp",
    "*.h",
    "*.hpp",
    "*.pxd",
    "*.pxi",
    "*.pyi",
    "*.pyx",
    "*/py.typed",
    "*/tests",
    "*/tests/*",
    "numpy/_core/include*",
    "numpy/distutils*",
    "numpy/f2py*",
    "numpy/typing/tests*",
    *(
        f"ortools/{name}*"
        for name in (
            "algorithms", "constraint_solver", "graph", "init", "linear_solver", "math_opt", "packing", "pdlp",
            "routing", "scheduling", "service", "set_cover",
        )
    ),
)  # fmt: skip

#: The programs' own folders that only tests use.
NOT_OF_PROGRAM = ("testing", "testing/*", "*__pycache__*")

USER = 65532
HOME = "/home/nonroot"
ENTRY_POINT = ("echelon",)
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin",
    "HOME": HOME,
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt",
}
#: What ends the programs; they give up their lease then.
STOP_SIGNAL = "SIGTERM"


@dataclass(frozen=True)
class Architecture:
    #: As Debian and OCI call it, which is the same for these.
    name: str
    #: As Python, wheels and compilers call it.
    machine: str
    #: The dynamic linker, among its libraries.
    loader: str

    @property
    def libraries(self) -> str:
        return f"usr/lib/{self.machine}-linux-gnu"

    @property
    def platforms(self) -> tuple[str, ...]:
        """Wheel tags that Debian 12's C library satisfies."""
        return (
            *(f"manylinux_2_{minor}_{self.machine}" for minor in range(36, 16, -1)),
            f"manylinux2014_{self.machine}",
        )


ARCHITECTURES = {
    one.name: one
    for one in (
        Architecture("amd64", "x86_64", "ld-linux-x86-64.so.2"),
        Architecture("arm64", "aarch64", "ld-linux-aarch64.so.1"),
    )
}
