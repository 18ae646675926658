"""One check for each command, by lane."""

from . import absent, auth, cluster, export, groups, messages, names, topics
from .registry import REGISTERED

# A command takes a second, most of which it waits for its own shutdown, so lanes run side by side; each makes what it needs.
LANES = [[topics, auth, export], [cluster, messages], [groups]]
# Take away the broker's permission to write for a while; leave things behind in Apache that other commands stumble over.
ALONE = [names, absent]


def commands(modules):
    return {name: run for module in modules for name, run in REGISTERED[module.__name__].items()}
