"""`protoadapt methods`."""


def methods() -> None:
    """List the inference methods and their settings.

    The names are those of `evaluate --method`, `compare --methods` and `label --method`; settings go to --set.
    """
    from protoadapt.core.methods import METHODS, method

    for name, function in METHODS.items():
        print(name)
        print("  " + " ".join((function.__doc__ or "").split("\n\n")[0].split()))
        settings = method(function).settings
        if settings:
            print("  settings: " + ", ".join(f"{key}={value}" for key, value in settings.items()))
