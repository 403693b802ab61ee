// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/uniform_average.hpp>
#include <vector>

using namespace normplace::detail;

namespace {

constexpr std::size_t n = 4;
using Matrix = std::vector<double>;

Matrix product(const Matrix& a, const Matrix& b) {
    Matrix c(n * n);
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t k = 0; k < n; ++k)
            for (std::size_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
    return c;
}
Matrix transposed(const Matrix& a) {
    Matrix b(n * n);
    for (std::size_t e = 0; e < n * n; ++e) b[e % n * n + e / n] = a[e];
    return b;
}
void check(const Matrix& x, const Matrix& expected) {
    for (std::size_t e = 0; e < n * n; ++e) CHECK(x[e] == doctest::Approx(expected[e]).epsilon(1e-14));
}

}  // namespace

TEST_CASE("UniformAverage: its products are those of the matrix") {
    for (const bool causal : {false, true}) {
        CAPTURE(causal);
        const UniformAverage average(n, causal);
        Matrix a(n * n), x(n * n);
        for (std::size_t i = 0; i < n; ++i) {
            CHECK(average.keys(i) == (causal ? i + 1 : n));
            for (std::size_t j = 0; j < average.keys(i); ++j) a[i * n + j] = 1.0 / static_cast<double>(average.keys(i));
            for (std::size_t j = 0; j < n; ++j) x[i * n + j] = std::sin(1.0 + static_cast<double>(i * n + j));
        }
        const Matrix adjoint = transposed(a);
        const auto changed = [&](void (UniformAverage::*function)(double*) const) {
            Matrix y = x;
            (average.*function)(y.data());
            return y;
        };
        check(changed(&UniformAverage::left), product(a, x));
        check(changed(&UniformAverage::right), product(x, adjoint));
        check(changed(&UniformAverage::left_adjoint), product(adjoint, x));
        check(changed(&UniformAverage::right_adjoint), product(x, a));
        check(changed(&UniformAverage::both), product(product(a, x), adjoint));
        check(changed(&UniformAverage::both_adjoint), product(product(adjoint, x), a));
    }
}
