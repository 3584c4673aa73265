// A test runner in one header: cc/core is tested without a framework to install, also under sanitizers and on a GPU
// machine.
//
//   TEST(FindsWhatWasInserted) { EXPECT_EQ(table.Size(), 1); }
//   int main(int argc, char** argv) is here; arguments, if any, choose tests whose names contain them.
#ifndef TF_BOOSTER_CC_CORE_BASE_TEST_H_
#define TF_BOOSTER_CC_CORE_BASE_TEST_H_

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

namespace tf_booster::testing {

struct TestCase {
  const char* name;
  void (*run)();
};

inline std::vector<TestCase>& AllTests() {
  static std::vector<TestCase> tests;
  return tests;
}

struct Registrar {
  Registrar(const char* name, void (*run)()) { AllTests().push_back({name, run}); }
};

// Failures of the test that runs now. Expectations may be checked from several threads.
inline int& Failures() {
  static int failures = 0;
  return failures;
}

inline void Fail(const char* file, int line, const std::string& what) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  if (++Failures() <= 10) std::cerr << "  " << file << ":" << line << ": " << what << "\n";
}

template <class A, class B>
void ExpectEqual(const A& a, const B& b, const char* text, const char* file, int line) {
  if (a == b) return;
  std::ostringstream out;
  out.precision(9);
  out << text << ": " << a << " against " << b;
  Fail(file, line, out.str());
}

inline int RunAll(int argc, char** argv) {
  int passed = 0, failed = 0;
  for (const TestCase& test : AllTests()) {
    bool chosen = argc < 2;
    for (int i = 1; i < argc; ++i) chosen = chosen || std::strstr(test.name, argv[i]) != nullptr;
    if (!chosen) continue;
    Failures() = 0;
    const auto start = std::chrono::steady_clock::now();
    test.run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    (Failures() == 0 ? passed : failed) += 1;
    std::printf("%s %s", Failures() == 0 ? "ok    " : "FAILED", test.name);
    if (took.count() >= 1) std::printf(" (%.1f s)", took.count());
    std::printf("\n");
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace tf_booster::testing

#define TEST(name)                                                        \
  static void name();                                                     \
  static ::tf_booster::testing::Registrar registrar_##name(#name, &name); \
  static void name()

#define EXPECT_EQ(a, b) ::tf_booster::testing::ExpectEqual((a), (b), #a " == " #b, __FILE__, __LINE__)
#define EXPECT_TRUE(a) ((a) ? (void)0 : ::tf_booster::testing::Fail(__FILE__, __LINE__, "expected true: " #a))
#define EXPECT_FALSE(a) (!(a) ? (void)0 : ::tf_booster::testing::Fail(__FILE__, __LINE__, "expected false: " #a))
#define EXPECT_OK(expr)                                                                            \
  do {                                                                                             \
    const auto& tfb_result_ = (expr);                                                              \
    if (!tfb_result_.ok()) ::tf_booster::testing::Fail(__FILE__, __LINE__, tfb_result_.message()); \
  } while (0)

int main(int argc, char** argv) { return ::tf_booster::testing::RunAll(argc, argv); }

#endif  // TF_BOOSTER_CC_CORE_BASE_TEST_H_
