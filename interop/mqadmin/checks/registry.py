"""Commands and their checks, by module. A check takes the World, returns a note or nothing, and raises Broken."""

REGISTERED = {}


def command(name):
    def register(run):
        REGISTERED.setdefault(run.__module__, {})[name] = run
        return run
    return register
