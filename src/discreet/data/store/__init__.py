"""Stores of people on disk, for tables that are larger than memory."""

from .layout import Bucket, Store
from .preparing import append, prepare

__all__ = ["Bucket", "Store", "append", "prepare"]
