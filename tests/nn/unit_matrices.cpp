// SPDX-License-Identifier: BSD-3-Clause
//
// Matrices as unit vectors along the model width: which parameters, along which side, and from the start on.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <normplace/nn/decoder.hpp>
#include <normplace/nn/language_model.hpp>
#include <normplace/nn/unit_matrices.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;
using detail::UnitVectors;

namespace {

/// The largest difference of a row's length from 1, or a column's.
template <class T>
double largest_difference(const Matrix<T>& matrix, bool rows) {
    const std::size_t height = matrix.shape()[0], width = matrix.shape()[1];
    double largest = 0.0;
    for (std::size_t i = 0; i < (rows ? height : width); ++i) {
        double square = 0.0;
        for (std::size_t j = 0; j < (rows ? width : height); ++j) {
            const double entry = rows ? matrix(i, j) : matrix(j, i);
            square += entry * entry;
        }
        largest = std::max(largest, std::abs(std::sqrt(square) - 1.0));
    }
    return largest;
}

template <class Model>
void check_start(const Model& model, std::size_t expected) {
    std::size_t matrices = 0;
    for_each_parameter(
        [&](const std::string& name, const auto& value) {
            if constexpr (std::tuple_size_v<typename std::decay_t<decltype(value)>::shape_type> == 2) {
                if (name.find("layers.") == std::string::npos || !name.ends_with(".weight")) return;
                CAPTURE(name);
                const bool writes = name.ends_with(".out.weight") || name.ends_with("linear2.weight");
                CHECK(largest_difference(value, !writes) < 1e-15 * 16);
                CHECK(largest_difference(value, writes) > 0.01);
                ++matrices;
            }
        },
        model);
    CHECK(matrices == expected);
}

}  // namespace

TEST_CASE("which matrices of a model, by name: rows that read the stream, columns that write to it") {
    for (const char* name : {"query.weight", "layers.0.self_attention.key.weight",
                             "encoder.layers.11.attention.value.weight", "layers.0.feed_forward.linear1.weight"})
        CHECK(detail::unit_vectors_of(name) == UnitVectors::rows);
    for (const char* name :
         {"out.weight", "decoder.layers.0.cross_attention.out.weight", "layers.0.feed_forward.linear2.weight"})
        CHECK(detail::unit_vectors_of(name) == UnitVectors::columns);
    for (const char* name : {"readout.weight", "embedding.token_embedding.weight", "layers.0.attention.query.bias",
                             "layers.0.attention.query_key_scale", "layers.0.attention.alpha", "weight", ""})
        CHECK(detail::unit_vectors_of(name) == UnitVectors::none);
}

TEST_CASE("rows, columns, zeros and what is not a number") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    FeedForward<double> layer({.width = 2, .feed_forward = 3});
    layer.linear1.weight = {{3.0, 4.0}, {0.0, 0.0}, {nan, 1.0}};
    layer.linear2.weight = {{3.0, 0.0, 1e-200}, {-4.0, 0.0, 0.0}};
    layer.linear1.bias.fill(5.0);
    normalise_matrices(layer);
    const double rows[] = {0.6, 0.8, 0.0, 0.0}, columns[] = {0.6, 0.0, -0.8, 0.0};
    for (std::size_t i = 0; i < 4; ++i) {
        CHECK(layer.linear1.weight.data()[i] == doctest::Approx(rows[i]).epsilon(1e-15));
        CHECK(layer.linear2.weight(i / 2, i % 2) == doctest::Approx(columns[i]).epsilon(1e-15));
    }
    CHECK(std::isnan(layer.linear1.weight(2, 0)));
    CHECK(std::isnan(layer.linear1.weight(2, 1)));
    CHECK(layer.linear2.weight(0, 2) == 1e-200);  // its square is 0, and so it is a column of zeros
    CHECK(layer.linear1.bias[0] == 5.0);
}

TEST_CASE("float: the inverse length of a tiny row or column is beyond its range") {
    FeedForward<float> layer({.width = 2, .feed_forward = 2});
    layer.linear1.weight = {{1e-42f, 0.0f}, {0.0f, -1e-42f}};
    layer.linear2.weight = {{1e-42f, 0.0f}, {0.0f, -1e-42f}};
    normalise_matrices(layer);
    const float expected[] = {1.0f, 0.0f, 0.0f, -1.0f};
    for (std::size_t i = 0; i < 4; ++i) {
        CHECK(layer.linear1.weight.data()[i] == expected[i]);
        CHECK(layer.linear2.weight.data()[i] == expected[i]);
    }
}

TEST_CASE("where the placement asks for them, a stack's matrices start so; tables and readout do not") {
    LanguageModel<NGPT, double, UnitNorm<double>> model(
        {.vocabulary = 9, .layers = 2, .width = 8, .heads = 2, .feed_forward = 12, .positions = 4});
    RandomEngine random(1);
    model.initialize(random);
    check_start(model, 12);
    CHECK(largest_difference(model.readout.weight, true) > 0.01);
    CHECK(largest_difference(model.embedding.token.weight, true) > 0.01);
    Decoder<NGPT, double, UnitNorm<double>> decoder({.layers = 1, .width = 8, .heads = 2, .feed_forward = 12});
    decoder.initialize(random);
    check_start(decoder, 10);
    Encoder<PreLN, double> other({.layers = 1, .width = 8, .heads = 2, .feed_forward = 12});
    other.initialize(random);
    CHECK(largest_difference(other.layers[0].attention.sublayer.query.weight, true) > 0.01);
}

TEST_CASE("the list of a model's parameters gives what the model itself does") {
    Encoder<PreLN, float> once({.layers = 2, .width = 40, .heads = 2, .feed_forward = 300});
    RandomEngine random(1);
    once.initialize(random);
    Encoder<PreLN, float> by_list = once;
    Encoder<PreLN, float>::Gradients gradients;
    zero_gradients(by_list, gradients);
    normalise_matrices(once);
    normalise_matrices(parameter_list(by_list, gradients));
    bool same = true;
    for_each_parameter([&](const std::string&, const auto& a, const auto& b) { same = same && a == b; },
                       std::as_const(once), std::as_const(by_list));
    CHECK(same);
    CHECK(largest_difference(once.layers[1].feed_forward.sublayer.linear1.weight, true) < 1e-6);
}
