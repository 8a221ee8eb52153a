"""The soak; start reading at `main.py`."""
