"""Where things are. Everything that is installed or written lives under WORK."""

from pathlib import Path

INTEROP = Path(__file__).resolve().parent.parent
ROOT = INTEROP.parent
WORK = INTEROP / ".work"
MAVEN_REPOSITORY = WORK / "m2"
