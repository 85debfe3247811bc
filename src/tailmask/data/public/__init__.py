"""Public data sets by name: downloads and constructions. Users' own files are read by `data.readers`."""
