"""Copy what the README says to type, top to bottom: its commands as a shell script, its Python as one program.

``python .ci/newcomer.py README.md FOLDER`` writes ``commands.sh`` and ``program.py`` there. Installing is left out:
whoever runs them has done it, without extras, so lines that say they need one (``# extra: invert``) are left out too.
"""

import re
import sys
from pathlib import Path

BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INSTALLS = ("pip ", "./run ")


def read(text):
    """The shell's commands and the blocks of Python, each in order."""
    commands, blocks = [], []
    for kind, block in BLOCK.findall(text):
        if kind == "python":
            blocks.append(block)
        else:
            lines = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
            commands += [line for line in lines if not line.startswith(INSTALLS)]
    return commands, blocks


if __name__ == "__main__":
    commands, program = read(Path(sys.argv[1]).read_text(encoding="utf-8"))
    commands = [line for line in commands if "# extra:" not in line]
    folder = Path(sys.argv[2])
    script = "".join(f"echo '$' {line.partition(' #')[0]!r}; {line}\n" for line in commands)
    (folder / "commands.sh").write_text(f"set -euo pipefail\n{script}", encoding="utf-8")
    (folder / "program.py").write_text("\n".join(program), encoding="utf-8")
