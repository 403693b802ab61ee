// LayerNorm and RMSNorm: the formulas, the gradients, and the numerical edges.
#include <doctest/doctest.h>

#include <limits>

#include <normplace/nn/norm.hpp>

#include "gradient_check.hpp"

using namespace normplace;
using normplace::test::check_layer;
using normplace::test::random_activations;

namespace {

template <class T>
Activations<T> row(std::initializer_list<double> entries) {
    Activations<T> x;
    x.resize({1, 1, entries.size()});
    std::size_t i = 0;
    for (const double entry : entries) x.data()[i++] = static_cast<T>(entry);
    return x;
}

template <class N, class T>
Activations<T> normalized(const Activations<T>& x, double epsilon = 1e-5) {
    const N norm(NormOptions{x.shape()[2], epsilon});
    typename N::Cache cache;
    Activations<T> y;
    norm.forward(x, y, cache);
    return y;
}

}  // namespace

TEST_CASE("LayerNorm uses the biased variance, with epsilon inside the root") {
    // Mean 2, biased variance 2/3.
    const double epsilon = 0.25;
    const auto y = normalized<LayerNorm<double>>(row<double>({1, 2, 3}), epsilon);
    const double expected = 1.0 / std::sqrt(2.0 / 3.0 + epsilon);
    CHECK(y(0, 0, 0) == doctest::Approx(-expected).epsilon(1e-14));
    CHECK(y(0, 0, 1) == doctest::Approx(0.0));
    CHECK(y(0, 0, 2) == doctest::Approx(expected).epsilon(1e-14));
}

TEST_CASE("RMSNorm divides by the root mean square and keeps the mean") {
    const double epsilon = 0.25;
    const auto y = normalized<RMSNorm<double>>(row<double>({1, 2, 3}), epsilon);
    for (std::size_t i = 0; i < 3; ++i)
        CHECK(y(0, 0, i) ==
              doctest::Approx(static_cast<double>(i + 1) / std::sqrt(14.0 / 3.0 + epsilon)).epsilon(1e-14));
}

TEST_CASE_TEMPLATE("a norm's backward is the derivative of its forward", N, LayerNorm<double>, RMSNorm<double>) {
    for (const bool bias : {true, false})
        for (const std::size_t b : {1, 2})
            for (const std::size_t s : {1, 3})
                for (const std::size_t d : {1, 2, 5}) {
                    INFO("bias ", bias, ", ", "b ", b, ", ", "s ", s, ", ", "d ", d);
                    if (d == 1 && std::is_same_v<N, LayerNorm<double>>)
                        continue;  // its output is constant: tested below
                    check_layer(N(NormOptions{d, 1e-3, bias}), b, s, 10 * b + s + d);
                }
}

TEST_CASE_TEMPLATE("a large constant row normalises to exactly 0", T, float, double) {
    for (const double constant : {1234.567, -3e7, 1e30}) {
        Activations<T> x;
        x.resize({2, 1, 256});
        x.fill(static_cast<T>(constant));
        const Activations<T> y = normalized<LayerNorm<T>>(x);
        for (const T entry : y.storage()) CHECK(entry == T(0));
    }
}

TEST_CASE_TEMPLATE("a large mean does not spoil the variance", T, float, double) {
    // In units of the mean's last place the entries are exact, so the answer is that of the row without its mean. The
    // variance as E[x^2] - E[x]^2 would lose every digit in float here.
    const auto shifted = normalized<LayerNorm<T>>(row<T>({4096 + 1, 4096 + 2, 4096 + 3, 4096 + 6}));
    const auto plain = normalized<LayerNorm<T>>(row<T>({1, 2, 3, 6}));
    for (std::size_t i = 0; i < 4; ++i)
        CHECK(shifted(0, 0, i) == doctest::Approx(plain(0, 0, i)).epsilon(8.0 * std::numeric_limits<T>::epsilon()));
}

TEST_CASE("a width of 1 is defined: LayerNorm gives the bias, RMSNorm the sign") {
    CHECK(normalized<LayerNorm<double>>(row<double>({7.0}))(0, 0, 0) == 0.0);
    CHECK(normalized<RMSNorm<double>>(row<double>({-7.0}))(0, 0, 0) == doctest::Approx(-1.0).epsilon(1e-6));
    LayerNorm<double> norm(NormOptions{1});
    LayerNorm<double>::Cache cache;
    LayerNorm<double>::Gradients gradients;
    zero_gradients(norm, gradients);
    Activations<double> x = row<double>({7.0}), dy = row<double>({2.0}), y, dx;
    norm.forward(x, y, cache);
    norm.backward(dy, dx, cache, gradients);
    CHECK(dx(0, 0, 0) == 0.0);
    CHECK(gradients.gain[0] == 0.0);
    CHECK(gradients.bias[0] == 2.0);
}

TEST_CASE_TEMPLATE("NaN and infinity in give NaN out, in their own row only", N, LayerNorm<float>, RMSNorm<float>) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        Activations<float> x;
        x.resize({1, 2, 4});
        for (std::size_t i = 0; i < 8; ++i) x.data()[i] = static_cast<float>(i);
        x(0, 0, 2) = bad;
        const auto y = normalized<N>(x);
        CHECK(std::isnan(y(0, 0, 2)));
        for (std::size_t i = 0; i < 4; ++i) CHECK(std::isfinite(y(0, 1, i)));
    }
}

TEST_CASE("no rows are no work") {
    Activations<double> x;
    x.resize({0, 3, 4});
    CHECK(normalized<LayerNorm<double>>(x).size() == 0);
}

TEST_CASE("in place is allowed") {
    LayerNorm<double> norm(NormOptions{6});
    LayerNorm<double>::Cache cache;
    Activations<double> x = random_activations(2, 3, 6, 1), y;
    norm.forward(x, y, cache);
    norm.forward(x, x, cache);
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(x.data()[i] == y.data()[i]);
}

TEST_CASE("wrong arguments are refused with their values") {
    CHECK_THROWS_WITH(LayerNorm<float>(NormOptions{0}), "LayerNorm: width is 0, expected at least 1");
    CHECK_THROWS_WITH(RMSNorm<float>(NormOptions{4, 0.0}), "RMSNorm: epsilon 0 is not positive and finite");
    CHECK_THROWS_WITH(LayerNorm<float>(NormOptions{4, 1e-50}), "LayerNorm: epsilon 1e-50 is not positive and finite");
    LayerNorm<double> none;
    LayerNorm<double>::Cache none_cache;
    Activations<double> empty = random_activations(2, 3, 0, 1), out_of_none;
    CHECK_THROWS_WITH(none.forward(empty, out_of_none, none_cache),
                      "LayerNorm: it was made without options and has no width");
    LayerNorm<double> norm(NormOptions{4});
    LayerNorm<double>::Cache cache;
    LayerNorm<double>::Gradients gradients;
    Activations<double> x = random_activations(2, 3, 5, 1), y, dx;
    CHECK_THROWS_WITH(norm.forward(x, y, cache), "LayerNorm: x has shape (2, 3, 5), expected (B, S, 4)");
    x = random_activations(2, 3, 4, 1);
    norm.forward(x, y, cache);
    CHECK_THROWS_WITH(norm.backward(y, dx, cache, gradients), "LayerNorm: gradients.gain has shape (0), expected (4)");
    zero_gradients(norm, gradients);
    CHECK_THROWS_WITH(norm.backward(random_activations(2, 3, 5, 1), dx, cache, gradients),
                      "LayerNorm: dy has shape (2, 3, 5), expected (B, S, 4)");
    CHECK_THROWS_WITH(norm.backward(random_activations(2, 2, 4, 1), dx, cache, gradients),
                      "LayerNorm: dy has shape (2, 2, 4), expected (2, 3, 4)");
}

// Rows of every length from 1 to beyond two packs of the widest instruction set, at any place in memory, in place, and
// with the other terms of a sum, against the formula.
TEST_CASE_TEMPLATE("rows of every width and alignment", N, LayerNorm<double>, RMSNorm<double>) {
    constexpr bool centred = std::same_as<N, LayerNorm<double>>;
    constexpr double epsilon = 1e-5, tolerance = 1e-12;
    constexpr std::size_t rows = 3;
    for (std::size_t width = 1; width <= 70; ++width)
        for (const std::size_t offset : {0, 1, 3}) {
            const auto at = [&](std::size_t i, double phase) { return 2.0 + std::sin(static_cast<double>(i) * phase); };
            const std::size_t size = rows * width;
            std::vector<double> x(offset + size), z(offset + size), gain(width), bias(width), dy(size), h(size),
                s(rows);
            for (std::size_t i = 0; i < size; ++i) {
                x[offset + i] = at(i, 1.3);
                z[offset + i] = at(i, 0.7);
                dy[i] = at(i, 2.1);
            }
            for (std::size_t i = 0; i < width; ++i) {
                gain[i] = at(i, 0.4);
                bias[i] = at(i, 0.9);
            }
            // y = norm(2 x - z), written over z; then dx = 3 dy's gradient + 0.5 x, written over x.
            std::vector<double> y = z, dx = x, dgain(width), dbias(width);
            const detail::Term<double> terms[] = {{2.0, x.data() + offset}, {-1.0, y.data() + offset}};
            NORMPLACE_KERNEL(norm_rows<centred>, terms, std::size_t{2}, std::size_t{0}, rows, width, epsilon,
                             gain.data(), bias.data(), y.data() + offset, h.data(), s.data());
            const detail::Term<double> residual{0.5, dx.data() + offset};
            NORMPLACE_KERNEL(norm_backward_rows<centred>, dy.data(), 3.0, &residual, std::size_t{1}, std::size_t{0},
                             rows, width, gain.data(), h.data(), s.data(), dx.data() + offset, dgain.data(),
                             dbias.data());
            double worst = 0.0;
            std::vector<double> expected_dgain(width), expected_dbias(width);
            for (std::size_t r = 0; r < rows; ++r) {
                const auto v = [&](std::size_t i) {
                    return 2.0 * x[offset + r * width + i] - z[offset + r * width + i];
                };
                double mean = 0.0, square = 0.0, g_mean = 0.0, projection = 0.0;
                for (std::size_t i = 0; i < width; ++i) mean += centred ? v(i) / static_cast<double>(width) : 0.0;
                for (std::size_t i = 0; i < width; ++i) square += (v(i) - mean) * (v(i) - mean);
                const double inverse = 1.0 / std::sqrt(square / static_cast<double>(width) + epsilon);
                const auto g = [&](std::size_t i) { return 3.0 * gain[i] * dy[r * width + i]; };
                const auto normalized = [&](std::size_t i) { return (v(i) - mean) * inverse; };
                for (std::size_t i = 0; i < width; ++i) {
                    g_mean += centred ? g(i) / static_cast<double>(width) : 0.0;
                    projection += g(i) * normalized(i) / static_cast<double>(width);
                    expected_dgain[i] += 3.0 * dy[r * width + i] * normalized(i);
                    expected_dbias[i] += 3.0 * dy[r * width + i];
                }
                for (std::size_t i = 0; i < width; ++i) {
                    const std::size_t place = offset + r * width + i;
                    worst = std::max(worst, std::abs(y[place] - (gain[i] * normalized(i) + bias[i])));
                    const double d = inverse * (g(i) - g_mean - normalized(i) * projection) + 0.5 * x[place];
                    worst = std::max(worst, std::abs(dx[place] - d) / (1.0 + inverse));
                }
            }
            for (std::size_t i = 0; i < width; ++i)
                worst =
                    std::max({worst, std::abs(dgain[i] - expected_dgain[i]), std::abs(dbias[i] - expected_dbias[i])});
            CAPTURE(width);
            CAPTURE(offset);
            CHECK(worst < tolerance);
        }
}
