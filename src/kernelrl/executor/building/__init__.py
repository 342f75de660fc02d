"""Building: native code is compiled, cached, and sent to other machines."""
