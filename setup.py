"""The compiled part of the package: Cython modules in src/discreet/kernels, built by pip and by ``make``.

Everything else about the package stands in pyproject.toml. ``DISCREET_CHECKED=1`` builds modules that check
every index, for ``make audit``. ``DISCREET_COMPILED=1`` installs a checkout whose modules ``make`` compiles
meanwhile. ``DISCREET_ONLY="rows stores"`` builds these modules alone, for ``make mutants``.
"""

import os
import shutil
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError

CHECKED = bool(os.environ.get("DISCREET_CHECKED"))
ONLY = os.environ.get("DISCREET_ONLY", "").split()
SHARED = "discreet.kernels._shared"  # Cython's own helpers, compiled once for all modules
# No contraction to fused operations and no fast-math: the same bits on every machine, for every seed.
FLAGS = [
    "-O3",
    "-g0",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-strict-aliasing",
]


class Build(build_ext):
    def build_extension(self, extension: Extension) -> None:
        """Compile a module, unless one that is newer than all sources lies in its place already."""
        target = Path(self.get_ext_fullpath(extension.name))
        built = Path("src", *extension.name.split(".")[:-1], target.name)
        newest = max(Path(one).stat().st_mtime for one in [*extension.sources, *extension.depends])
        if CHECKED or not built.exists() or built.stat().st_mtime < newest:
            super().build_extension(extension)
        elif target.resolve() != built.resolve():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(built, target)

    def build_extensions(self) -> None:
        unix = self.compiler.compiler_type != "msvc"
        for extension in self.extensions:
            extension.extra_compile_args = FLAGS if unix else ["/O2", "/fp:precise"]
            if unix and extension.name == SHARED:  # no loop of ours is in it
                extension.extra_compile_args = [*FLAGS, "-O1"]
        try:
            super().build_extensions()
        except CCompilerError as error:
            raise SystemExit(
                f"discreet is partly written in Cython and needs a C compiler to be built; {error}\n"
                "Debian: apt-get install build-essential python3-dev. macOS: xcode-select --install. "
                "Windows: Visual Studio Build Tools. A wheel of the release needs none of them."
            ) from None


def extensions() -> list[Extension]:
    found = sorted(Path("src/discreet/kernels").glob("*.pyx"), key=lambda one: -one.stat().st_size)
    made = [
        Extension(f"discreet.kernels.{one.stem}", [one.as_posix()], depends=["setup.py"]) for one in found
    ]
    shared = Extension(SHARED, [f"src/{SHARED.replace('.', '/')}.c"], depends=["setup.py"])
    if ONLY:
        made = [one for one in made if one.name.rpartition(".")[2] in ONLY]
    return cythonize(
        [made[0], shared, *made[1:]],  # the longest first, so that no core waits for it
        nthreads=0 if sys.platform == "win32" else os.cpu_count() or 1,
        language_level=3,
        shared_utility_qualified_name=SHARED,
        build_dir="build/checked" if CHECKED else "build/cython",
        compiler_directives={
            "boundscheck": CHECKED,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "embedsignature": True,
            "auto_pickle": False,  # nothing of ours is pickled, and it was a tenth of what is compiled
        },
    )


setup(
    ext_modules=[] if os.environ.get("DISCREET_COMPILED") else extensions(),
    cmdclass={"build_ext": Build},
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
