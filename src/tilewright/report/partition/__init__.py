"""A partition for people and programs: tables, JSON, CSV, Mermaid, DOT, a page."""
