"""One module per pass; `program/pipeline.py` lists them."""
