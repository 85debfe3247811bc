"""Images as inputs, in memory or on disk, with augmentation. Lists of files are read by `data.readers`."""
