// Nothing of its own: this program exists so that its precompiled header does.
int main() { return 0; }
