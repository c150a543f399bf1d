"""braze: an array compiler with every stage in plain sight."""

__version__ = "0.1.0"
