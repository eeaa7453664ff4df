"""Expectations of the Python tests."""


def _error(kind, call, args, named):
    try:
        call(*args, **named)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def raises(kind, call, *args, **named):
    """The text of the error of a class, or of one below it, that a call raises."""
    return str(_error(kind, call, args, named))


def raises_exactly(kind, call, *args, **named):
    """The text of the error of just this class that a call raises."""
    error = _error(kind, call, args, named)
    assert type(error) is kind, type(error)
    return str(error)
