// Normal and uniform draws: moments, tails, independence of neighbours, and a sequence that is the same everywhere.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <normplace/detail/random.hpp>

using namespace normplace;

TEST_CASE_TEMPLATE("normal draws have the normal distribution's moments and tails", T, float, double) {
    const std::size_t count = 1'000'001;  // odd: the last pair is half used
    std::vector<T> z(count);
    RandomEngine random(1);
    detail::fill_gaussian(z.data(), count, T(2), random);
    double sum = 0, second = 0, fourth = 0, neighbours = 0, beyond_three = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const double v = static_cast<double>(z[i]) / 2.0;
        sum += v;
        second += v * v;
        fourth += v * v * v * v;
        if (i > 0) neighbours += v * static_cast<double>(z[i - 1]) / 2.0;
        beyond_three += std::abs(v) > 3.0;
    }
    const double n = static_cast<double>(count), root = std::sqrt(n);
    CHECK(std::abs(sum / n) < 4.0 / root);
    CHECK(std::abs(second / n - 1.0) < 4.0 * std::sqrt(2.0) / root);
    CHECK(std::abs(fourth / n - 3.0) < 4.0 * std::sqrt(96.0) / root);
    CHECK(std::abs(neighbours / n) < 4.0 / root);
    const double tail = std::erfc(3.0 / std::sqrt(2.0));
    CHECK(std::abs(beyond_three / n - tail) < 4.0 * std::sqrt(tail) / root);
}

TEST_CASE_TEMPLATE("uniform draws stay inside their bound and fill it", T, float, double) {
    std::vector<T> u(100'000);
    RandomEngine random(1);
    detail::fill_uniform(u.data(), u.size(), T(3), random);
    double sum = 0, second = 0, largest = 0;
    for (const T v : u) {
        sum += static_cast<double>(v);
        second += static_cast<double>(v) * static_cast<double>(v);
        largest = std::max(largest, std::abs(static_cast<double>(v)));
    }
    const double n = static_cast<double>(u.size());
    CHECK(largest <= 3.0);
    CHECK(largest > 2.999);
    CHECK(std::abs(sum / n) < 4.0 * std::sqrt(3.0 / n));
    CHECK(second / n == doctest::Approx(3.0).epsilon(4.0 * std::sqrt(0.8 / n)));  // 9 / 3; Var u^2 / (E u^2)^2 = 4/5
}

TEST_CASE("the engine is the standard's, whose 10,000th number is fixed") {
    RandomEngine random;
    random.discard(9999);
    CHECK(random() == 9981545732273789042ULL);
}
