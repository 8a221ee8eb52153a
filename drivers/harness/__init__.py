"""What `drivers/run` is made of; start reading at `main.py`."""
