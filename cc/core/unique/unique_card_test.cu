// The card's unique against a map: `make cuda` compiles it, `make test-cuda` runs it on a card.
#include "cc/core/unique/unique_body_test.cc"
