// Drawn weights: their standard deviation by role, their distribution, their reproducibility, the placement's gain.
#include <doctest/doctest.h>

#include <normplace/nn/any_norm.hpp>
#include <normplace/nn/encoder.hpp>
#include <normplace/placement/visit.hpp>

using namespace normplace;

namespace {

double measured_deviation(const Matrix<float>& weight) {
    double sum = 0.0;
    for (const float entry : weight.storage()) sum += static_cast<double>(entry) * static_cast<double>(entry);
    return std::sqrt(sum / static_cast<double>(weight.size()));
}

/// The deviation of n draws is off by 1/sqrt(2n) of itself (Gaussian), less for uniform: five of those.
double deviation_tolerance(const Matrix<float>& weight) {
    return 5.0 / std::sqrt(2.0 * static_cast<double>(weight.size()));
}

}  // namespace

TEST_CASE("every matrix of a block has its scheme's standard deviation times the placement's gain, or unit vectors") {
    const std::size_t d = 64, ff = 128, layers = 6;
    for (const Initialization& scheme :
         {Initialization::xavier(), Initialization::gpt2(), Initialization::pytorch(),
          Initialization::xavier(Initialization::Distribution::uniform), Initialization::standard_deviation(0.05)})
        for (const AnyPlacement* placement : all_placements()) {
            INFO("placement ", std::string(placement->name), " initialization ", std::string(scheme.name()));
            AnyEncoder<float, AnyNorm<float>> encoder(*placement,
                                                      {.layers = layers, .width = d, .heads = 4, .feed_forward = ff});
            RandomEngine random(1);
            encoder.initialize(random, scheme);
            const Depth depth{.layer = 2, .layers = layers};
            const auto check = [&](const Matrix<float>& weight, Role role) {
                const double variance = scheme.variance(role, weight.shape()[1], weight.shape()[0], depth);
                const double expected = placement->unit_matrices ? 1.0 / std::sqrt(static_cast<double>(d))
                                                                 : placement->gain(role, depth) * std::sqrt(variance);
                CHECK(measured_deviation(weight) == doctest::Approx(expected).epsilon(deviation_tolerance(weight)));
            };
            const auto& attention = encoder.layers[1].attention.sublayer;
            const auto& feed_forward = encoder.layers[1].feed_forward.sublayer;
            check(attention.query.weight, Role::query);
            check(attention.key.weight, Role::key);
            check(attention.value.weight, Role::value);
            check(attention.out.weight, Role::out);
            check(feed_forward.linear1.weight, Role::linear1);
            check(feed_forward.linear2.weight, Role::linear2);
        }
}

TEST_CASE("uniform draws stay within sqrt(3) standard deviations and reach them") {
    Matrix<double> weight;
    weight.resize({64, 64});
    RandomEngine random(1);
    const Initializer initializer(random, Initialization::xavier(Initialization::Distribution::uniform));
    initializer.draw(weight, Role::value);
    const double bound = std::sqrt(3.0) * initializer.standard_deviation(Role::value, 64, 64);
    double largest = 0.0;
    for (const double entry : weight.storage()) largest = std::max(largest, std::abs(entry));
    CHECK(largest <= bound);
    CHECK(largest > 0.99 * bound);
}

TEST_CASE("a seed fixes every weight, and another seed gives others") {
    Encoder<PreLN, float> a({.layers = 1, .width = 8, .heads = 2, .feed_forward = 16}), b = a, c = a;
    RandomEngine one(1), again(1), two(2);
    a.initialize(one);
    b.initialize(again);
    c.initialize(two);
    CHECK(a.layers[0].attention.sublayer.key.weight.storage() == b.layers[0].attention.sublayer.key.weight.storage());
    CHECK(a.layers[0].attention.sublayer.key.weight.storage() != c.layers[0].attention.sublayer.key.weight.storage());
}

TEST_CASE("a depth that does not exist is refused") {
    RandomEngine random(1);
    CHECK_THROWS_WITH(Initializer(random, Initialization::xavier(), Depth{.layer = 3, .layers = 2}),
                      "Depth: layer 3 is not one of the layers 1 to 2");
}
