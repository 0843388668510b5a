"""`python -m fuzz`: tries inputs and prints a table."""

import argparse
import shutil
import tempfile
from pathlib import Path

from fuzz.runner import fuzz, plans, table

parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
parser.add_argument("--rounds", type=int, default=500, help="inputs of each format")
parser.add_argument("--slow", type=int, help="inputs of what takes long; else as many")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--only", nargs="*", metavar="KIND", help="these kinds alone")
parser.add_argument("--folder", type=Path, help="keeps what did harm; else a temporary one")
given = parser.parse_args()
chosen = [
    {kind: count for kind, count in plan.items() if not given.only or kind in given.only}
    for plan in plans(given.rounds, given.rounds if given.slow is None else given.slow)
]
folder = given.folder or Path(tempfile.mkdtemp(prefix="fuzz-"))
rows = fuzz([plan for plan in chosen if plan], given.seed, folder.absolute())
harm = any(row.found for row in rows.values())
print(table(rows))
print(f"seed {given.seed}; " + (f"what did harm is in {folder}" if harm else "nothing did harm"))
if not (harm or given.folder):
    shutil.rmtree(folder)
raise SystemExit(harm)
