// The normalizations: the formulas, the gradients, and the numerical edges.
#include <doctest/doctest.h>

#include <limits>

#include <normplace/nn/norm.hpp>

#include "gradient_check.hpp"

using namespace normplace;
using normplace::test::check_layer;
using normplace::test::fill_random;
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

TEST_CASE("ScaleNorm and UnitNorm divide by the length") {
    const double epsilon = 0.25;
    const Activations<double> x = row<double>({1, 2, 3});
    const auto y = normalized<ScaleNorm<double>>(x, epsilon), u = normalized<UnitNorm<double>>(x, epsilon);
    for (std::size_t i = 0; i < 3; ++i) {
        const double entry = static_cast<double>(i + 1);
        CHECK(y(0, 0, i) == doctest::Approx(std::sqrt(3.0) * entry / std::sqrt(14.0 + 3.0 * epsilon)).epsilon(1e-14));
        CHECK(u(0, 0, i) == doctest::Approx(entry / std::sqrt(14.0 + epsilon)).epsilon(1e-14));
    }
    ScaleNorm<double> norm(NormOptions{3, epsilon});
    norm.gain[0] = 2.0;
    ScaleNorm<double>::Cache cache;
    Activations<double> scaled;
    norm.forward(x, scaled, cache);
    CHECK(scaled(0, 0, 2) == doctest::Approx(2.0 * 3.0 / std::sqrt(14.0 + 3.0 * epsilon)).epsilon(1e-14));
}

TEST_CASE_TEMPLATE("ScaleNorm starts as RMSNorm", T, float, double) {
    for (const std::size_t d : {1, 2, 5, 64, 100}) {
        Activations<T> x;
        x.resize({2, 3, d});
        fill_random(x, d);
        CHECK(normalized<ScaleNorm<T>>(x).storage() == normalized<RMSNorm<T>>(x).storage());
    }
}

TEST_CASE("a wide row of length 1 keeps it in UnitNorm") {
    Activations<float> x;
    x.resize({1, 1, 4096});
    x.fill(1.0f / 64.0f);
    const Activations<float> y = normalized<UnitNorm<float>>(x);
    for (const float entry : y.storage()) CHECK(entry == doctest::Approx(1.0 / 64.0).epsilon(1e-5));
}

TEST_CASE_TEMPLATE("a unit offset is a gain that counts from 1", Pair,
                   std::pair<LayerNorm<double>, UnitOffsetLayerNorm<double>>,
                   std::pair<RMSNorm<double>, UnitOffsetRMSNorm<double>>) {
    using Plain = typename Pair::first_type;
    using Offset = typename Pair::second_type;
    const Activations<double> x = random_activations(2, 3, 5, 1);
    CHECK(normalized<Offset>(x).storage() == normalized<Plain>(x).storage());
    Plain plain(NormOptions{5});
    Offset offset(NormOptions{5});
    for (std::size_t i = 0; i < 5; ++i) {
        CHECK(offset.gain[i] == 0.0);
        offset.gain[i] = 0.25 * static_cast<double>(i) - 0.5;
        plain.gain[i] = 1.0 + offset.gain[i];
        plain.bias[i] = offset.bias[i] = static_cast<double>(i);
    }
    typename Plain::Cache plain_cache;
    typename Offset::Cache offset_cache;
    Activations<double> expected, y;
    plain.forward(x, expected, plain_cache);
    offset.forward(x, y, offset_cache);
    CHECK(y.storage() == expected.storage());
}

TEST_CASE("CentreNorm takes the mean away, and lengthens by D/(D - 1)") {
    const auto y = normalized<CentreNorm<double>>(row<double>({1, 2, 6}));
    CHECK(y(0, 0, 0) == doctest::Approx(1.5 * -2.0).epsilon(1e-14));
    CHECK(y(0, 0, 1) == doctest::Approx(1.5 * -1.0).epsilon(1e-14));
    CHECK(y(0, 0, 2) == doctest::Approx(1.5 * 3.0).epsilon(1e-14));
}

TEST_CASE_TEMPLATE("the gain starts where it is told to, whatever is learned of it", N, LayerNorm<double>,
                   RMSNorm<double>, UnitOffsetLayerNorm<double>, UnitOffsetRMSNorm<double>, ScaleNorm<double>,
                   CentreNorm<double>) {
    const Activations<double> x = random_activations(2, 3, 5, 1), plain = normalized<N>(x);
    for (const double gain : {0.0, 0.25}) {
        const N norm(NormOptions{.width = 5, .gain = gain});
        typename N::Cache cache;
        Activations<double> y;
        norm.forward(x, y, cache);
        for (std::size_t i = 0; i < x.size(); ++i)
            CHECK(y.data()[i] == doctest::Approx(gain * plain.data()[i]).epsilon(1e-14));
    }
}

TEST_CASE("each norm has the parameters of its formula") {
    const auto parameters = []<class N>(N norm) {
        std::string all;
        for_each_parameter(
            [&](const std::string& name, const auto& value) { all += name + ' ' + std::to_string(value.size()) + ' '; },
            norm);
        return all;
    };
    for (const bool bias : {true, false}) {
        const NormOptions options{.width = 3, .bias = bias};
        const std::string by_entry = bias ? "gain 3 bias 3 " : "gain 3 ";
        CHECK(parameters(LayerNorm<float>(options)) == by_entry);
        CHECK(parameters(UnitOffsetRMSNorm<float>(options)) == by_entry);
        CHECK(parameters(CentreNorm<float>(options)) == by_entry);
        CHECK(parameters(ScaleNorm<float>(options)) == "gain 1 ");
        CHECK(parameters(UnitNorm<float>(options)) == "");
    }
    CHECK(parameters(ScaleNorm<float>()) == "");
}

TEST_CASE_TEMPLATE("a norm's backward is the derivative of its forward", N, LayerNorm<double>, RMSNorm<double>,
                   UnitOffsetLayerNorm<double>, UnitOffsetRMSNorm<double>, ScaleNorm<double>, UnitNorm<double>,
                   CentreNorm<double>) {
    for (const bool bias : {true, false})
        for (const std::size_t b : {1, 2})
            for (const std::size_t s : {1, 3})
                for (const std::size_t d : {1, 2, 5}) {
                    INFO("bias ", bias, ", ", "b ", b, ", ", "s ", s, ", ", "d ", d);
                    check_layer(N(NormOptions{d, 1e-3, bias}), b, s, 10 * b + s + d);
                }
}

TEST_CASE_TEMPLATE("a large constant row normalises to exactly 0", N, LayerNorm<float>, LayerNorm<double>,
                   CentreNorm<float>, CentreNorm<double>) {
    using T = typename N::Scalar;
    for (const double constant : {1234.567, -3e7, 1e30}) {
        Activations<T> x;
        x.resize({2, 1, 256});
        x.fill(static_cast<T>(constant));
        const Activations<T> y = normalized<N>(x);
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

TEST_CASE_TEMPLATE("a width of 1 is defined: the sign", N, RMSNorm<double>, ScaleNorm<double>, UnitNorm<double>) {
    CHECK(normalized<N>(row<double>({-7.0}))(0, 0, 0) == doctest::Approx(-1.0).epsilon(1e-6));
}

TEST_CASE_TEMPLATE("a width of 1 is defined: the bias, where the mean is taken away", N, LayerNorm<double>,
                   CentreNorm<double>) {
    CHECK(normalized<N>(row<double>({7.0}))(0, 0, 0) == 0.0);
    N norm(NormOptions{1});
    typename N::Cache cache;
    typename N::Gradients gradients;
    zero_gradients(norm, gradients);
    Activations<double> x = row<double>({7.0}), dy = row<double>({2.0}), y, dx;
    norm.forward(x, y, cache);
    norm.backward(dy, dx, cache, gradients);
    CHECK(dx(0, 0, 0) == 0.0);
    CHECK(gradients.gain[0] == 0.0);
    CHECK(gradients.bias[0] == 2.0);
}

TEST_CASE_TEMPLATE("a row of zeros gives the bias, and a finite gradient", N, LayerNorm<float>, RMSNorm<float>,
                   ScaleNorm<float>, UnitNorm<float>, CentreNorm<float>, UnitOffsetRMSNorm<float>) {
    const N norm(NormOptions{4});
    typename N::Cache cache;
    typename N::Gradients gradients;
    zero_gradients(norm, gradients);
    Activations<float> y, dx;
    norm.forward(row<float>({0, 0, 0, 0}), y, cache);
    for (const float entry : y.storage()) CHECK(entry == 0.0f);
    norm.backward(row<float>({1, 2, 3, 5}), dx, cache, gradients);
    for (const float entry : dx.storage()) CHECK(std::isfinite(entry));
}

TEST_CASE_TEMPLATE("a row whose squares overflow gives the bias", N, RMSNorm<float>, ScaleNorm<float>,
                   UnitNorm<float>) {
    const Activations<float> y = normalized<N>(row<float>({1e30, -1e25, 3e38, 1}));
    for (const float entry : y.storage()) CHECK(entry == 0.0f);
}

TEST_CASE_TEMPLATE("NaN and infinity in give NaN out, in their own row only", N, LayerNorm<float>, RMSNorm<float>,
                   ScaleNorm<float>, UnitNorm<float>, CentreNorm<float>) {
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
    CHECK_THROWS_WITH(UnitNorm<float>(NormOptions{.width = 4, .gain = 0.5}),
                      "UnitNorm: it has no gain that could start at 0.5");
    CHECK_THROWS_WITH(CentreNorm<float>(NormOptions{0}), "CentreNorm: width is 0, expected at least 1");
    CHECK_THROWS_WITH(UnitNorm<float>(NormOptions{4, 1e-45}), "UnitNorm: epsilon 1e-45 is not positive and finite");
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
    const detail::Term<double> term{1.0, x.data()};
    CHECK_THROWS_WITH(norm.forward_sum(&term, 1, {2, 3, 5}, y, cache),
                      "LayerNorm: y has shape (2, 3, 5), expected (B, S, 4)");
    x = random_activations(2, 3, 4, 1);
    norm.forward(x, y, cache);
    CHECK_THROWS_WITH(norm.backward(y, dx, cache, gradients), "LayerNorm: gradients.gain has shape (0), expected (4)");
    zero_gradients(norm, gradients);
    CHECK_THROWS_WITH(norm.backward(random_activations(2, 3, 5, 1), dx, cache, gradients),
                      "LayerNorm: dy has shape (2, 3, 5), expected (B, S, 4)");
    CHECK_THROWS_WITH(norm.backward(random_activations(2, 2, 4, 1), dx, cache, gradients),
                      "LayerNorm: dy has shape (2, 2, 4), expected (2, 3, 4)");
}

// Rows of 37 begin everywhere between two packs.
TEST_CASE_TEMPLATE("equal rows give equal bits, wherever they begin", N, LayerNorm<float>, LayerNorm<double>,
                   RMSNorm<float>, RMSNorm<double>) {
    using T = typename N::Scalar;
    N norm({.width = 37});
    test::randomize_parameters(norm, 1);
    Activations<T> x, y;
    x.resize({2, 16, 37});
    for (std::size_t i = 0; i < x.size(); ++i)
        x.data()[i] = static_cast<T>(std::sin(1.0 + static_cast<double>(i % 37)));
    typename N::Cache cache;
    norm.forward(x, y, cache);
    for (std::size_t i = 37; i < y.size(); ++i) CHECK(y.data()[i] == y.data()[i - 37]);
}
