//! What every test of the chain needs: the built binaries, a lab, and a runtime's calls.
