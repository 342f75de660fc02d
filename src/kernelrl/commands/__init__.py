"""The commands that are no stages, one file each, named as the command is."""
