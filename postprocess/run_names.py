"""What runs are called beside each other."""


def short_names(paths):
    """The shortest ends of the paths that tell them apart; not the file where all have one name."""
    parts = [path.absolute().parts for path in paths]
    if len({path.name for path in paths}) == 1:
        parts = [path[:-1] for path in parts]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(path[-depth:]) for path in parts]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]
