"""Tests of the client, beside server processes."""
