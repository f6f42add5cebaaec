// This program is empty. It exists only for its precompiled header.
int main() { return 0; }
