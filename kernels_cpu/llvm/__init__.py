"""Vector code for the compiler: LLVM assembly written as text."""
