"""Build tools, run with low priority and with everything they fetch kept under WORK."""

import subprocess

from paths import MAVEN_REPOSITORY, WORK


def run(command, **options):
    """Runs a build step; shows its output only when it fails."""
    done = subprocess.run(
        ["nice", "-n", "10", *map(str, command)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        check=False, **options)
    if done.returncode != 0:
        print(done.stdout)
        raise RuntimeError(f"failed: {' '.join(map(str, command))}")


def maven_class_path(folder, name, *goals):
    """Runs Maven goals in `folder` and returns the class path of its dependencies."""
    output = WORK / name / "classpath"
    sources = [folder / "pom.xml", *folder.rglob("*.java")]
    newest = max(path.stat().st_mtime for path in sources)
    if not output.exists() or output.stat().st_mtime < newest:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.unlink(missing_ok=True)
        run(["mvn", "-q", "-B", f"-Dmaven.repo.local={MAVEN_REPOSITORY}", *goals,
             "dependency:build-classpath", f"-Dmdep.outputFile={output}"], cwd=folder)
    return output.read_text().strip()
