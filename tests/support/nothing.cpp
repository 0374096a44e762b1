// What precompiled headers of tests are compiled for.
int main() {}
