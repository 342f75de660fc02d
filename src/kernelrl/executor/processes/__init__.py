"""The trusted side of untrusted processes: they are started, asked, frozen, and given cores."""
