// The card's unique against a map: `make test-cuda` runs it on a card, `make test-ptx` without one.
#include "cc/core/unique/unique_body_test.cc"
