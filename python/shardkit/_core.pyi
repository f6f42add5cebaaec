__version__: str

class DataLossError(OSError):
    """Stored bytes are not what was written: a file is damaged, cut, or of another kind."""
