// The mistakes that published implementations of these placements made, one property each. Where the mistake can be
// written down as a placement or a block, it is, and the property must fail for it: so the test is known to be able to
// fail.
//
// The mistakes inside kernels are tested where the kernel is: variance as E[x^2] - E[x]^2 and epsilon outside the root
// in norm.cpp, a fully masked row in attention.cpp.
#include <doctest/doctest.h>

#include <normplace/nn/encoder.hpp>
#include <normplace/placement/catalogue.hpp>

#include "gradient_check.hpp"

using namespace normplace;
using namespace normplace::test;

namespace {

constexpr std::size_t width = 16;

double distance(const Activations<double>& a, const Activations<double>& b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += (a.data()[i] - b.data()[i]) * (a.data()[i] - b.data()[i]);
    return std::sqrt(sum);
}
Activations<double> times(double factor, Activations<double> tensor) {
    for (double& entry : tensor.storage()) entry *= factor;
    return tensor;
}

/// A feed-forward block without biases, drawn at Xavier.
template <class P>
auto drawn_block(const Depth& depth = {}) {
    ResidualBlock<P, FeedForward<double>> block({.width = width, .feed_forward = 32, .bias = false}, depth, 1e-12);
    RandomEngine random(1);
    block.initialize(random);
    return block;
}
template <class Block, class... Context>
Activations<double> output(const Block& block, const Activations<double>& x, const Context&... context) {
    typename Block::Cache cache;
    Activations<double> y;
    block.forward(x, y, cache, context...);
    return y;
}
/// y - x
template <class Block, class... Context>
Activations<double> branch(const Block& block, const Activations<double>& x, const Context&... context) {
    Activations<double> y = output(block, x, context...);
    for (std::size_t i = 0; i < y.size(); ++i) y.data()[i] -= x.data()[i];
    return y;
}

const Activations<double> input = random_activations(2, 3, width, 5);

}  // namespace

// The residual is taken after the norm; or the norm stands at the end of the branch.

namespace {
struct ResidualAfterNorm {
    static constexpr auto name = "mistake";
    static constexpr auto formula = norm<in>(x) + f(norm<out>(x));
    static constexpr bool final_norm = true;
};
template <class P>
bool stream_passes_unchanged() {
    auto block = drawn_block<P>();
    block.sublayer.linear2.weight.fill(0.0);
    return distance(output(block, input), input) == 0.0;
}
template <class P>
bool doubling_w2_doubles_the_branch() {
    auto block = drawn_block<P>();
    const Activations<double> once = branch(block, input);
    for (double& entry : block.sublayer.linear2.weight.storage()) entry *= 2.0;
    return distance(branch(block, input), times(2.0, once)) < 1e-12;
}
}  // namespace

TEST_CASE("Pre-LN adds to the stream itself, not to its norm") {
    CHECK(stream_passes_unchanged<PreLN>());
    CHECK_FALSE(stream_passes_unchanged<ResidualAfterNorm>());
}
TEST_CASE("Pre-LN's norm stands before the sublayer, not after it") {
    CHECK(doubling_w2_doubles_the_branch<PreLN>());
    CHECK_FALSE(doubling_w2_doubles_the_branch<ResPostNorm>());
    CHECK_FALSE(doubling_w2_doubles_the_branch<PeriLN>());
}

// Keys and values are left un-normalised.

TEST_CASE("in Pre-LN, queries, keys and values all read the normalised stream") {
    const auto ignores_scale = [](const auto& block, const auto&... memories) {
        const auto at = [&](double scale) { return branch(block, times(scale, input), times(scale, memories)...); };
        return distance(at(1.0), at(10.0)) < 1e-9;
    };
    RandomEngine random(1);
    ResidualBlock<PreLN, MultiHeadAttention<double>> right({.width = width, .heads = 2}, {}, 1e-12);
    right.initialize(random);
    CHECK(ignores_scale(right));
    // The mistake: the norm reaches the queries only.
    ResidualBlock<PreLN, CrossAttention<double>> wrong({.width = width, .heads = 2}, {}, 1e-12);
    wrong.initialize(random);
    CHECK_FALSE(ignores_scale(wrong, input));
}

// One norm is reused where another was meant.

namespace {
struct ReusedNorm {
    static constexpr auto name = "mistake";
    static constexpr auto formula = x + norm(f(norm(x)));
    [[maybe_unused]] static constexpr bool final_norm = true;
};
}  // namespace

TEST_CASE("two norms are two parameters") {
    static_assert(Placement<PeriLN>);
    static_assert(!Placement<ReusedNorm>);
    auto block = drawn_block<PeriLN>();
    REQUIRE(block.norms.size() == 2);
    const Activations<double> before = branch(block, input);
    block.norms[0].gain.fill(3.0);  // norm_out: scales the branch
    CHECK(distance(branch(block, input), times(3.0, before)) < 1e-12);
    block.norms[0].gain.fill(1.0);
    block.norms[1].gain.fill(3.0);  // norm_in: undone by norm_out
    CHECK(distance(branch(block, input), before) < 1e-6);
}

// A flag is not forwarded to every layer.

TEST_CASE("causal reaches every layer") {
    const auto sees_no_future = [](const auto& encoder) {
        typename std::remove_cvref_t<decltype(encoder)>::Cache cache;
        Activations<double> changed = input, before, after;
        encoder.forward(changed, before, cache);
        for (std::size_t i = 0; i < width; ++i) changed(0, 2, i) = 0.5 * static_cast<double>(i);
        encoder.forward(changed, after, cache);
        double change = 0.0;
        for (std::size_t i = 0; i < 2 * width; ++i) change += std::abs(before.data()[i] - after.data()[i]);
        return change == 0.0;
    };
    const EncoderOptions options{.layers = 3, .width = width, .heads = 2, .feed_forward = 8, .causal = true};
    EncoderOptions bidirectional = options;
    bidirectional.causal = false;
    RandomEngine random(1);
    Encoder<PreLN, double> encoder(options);
    encoder.initialize(random);
    CHECK(sees_no_future(encoder));
    for (std::size_t l = 0; l < 3; ++l) {  // the mistake, in each layer
        Encoder<PreLN, double> wrong = encoder;
        wrong.layers[l] = EncoderLayer<PreLN, double>(bidirectional);
        wrong.layers[l].initialize(random);
        CHECK_FALSE(sees_no_future(wrong));
    }
}

// The final norm is doubled for Post-LN, or missing for Pre-LN.

namespace {
struct PostLNTwice {
    static constexpr auto name = "mistake";
    static constexpr auto formula = PostLN::formula;
    static constexpr bool final_norm = true;
};
struct PreLNWithout {
    static constexpr auto name = "mistake";
    static constexpr auto formula = PreLN::formula;
    static constexpr bool final_norm = false;
};
/// The mean square of the encoder's output, with the last norm of the last block at gain 2.
template <class P>
double output_second_moment() {
    Encoder<P, double> encoder({.layers = 3, .width = width, .heads = 2, .feed_forward = 32});
    RandomEngine random(1);
    encoder.initialize(random);
    encoder.layers.back().feed_forward.norms[0].gain.fill(2.0);
    typename Encoder<P, double>::Cache cache;
    Activations<double> y;
    encoder.forward(input, y, cache);
    return dot(y, y) / static_cast<double>(y.size());
}
}  // namespace

TEST_CASE("Post-LN's last norm is its block's; Pre-LN's is the stack's") {
    CHECK(output_second_moment<PostLN>() == doctest::Approx(4.0).epsilon(1e-4));
    CHECK_FALSE(output_second_moment<PostLNTwice>() == doctest::Approx(4.0).epsilon(1e-4));
    CHECK(output_second_moment<PreLN>() == doctest::Approx(1.0).epsilon(1e-4));
    CHECK_FALSE(output_second_moment<PreLNWithout>() == doctest::Approx(1.0).epsilon(1e-4));
}

// alpha stands on F instead of x; the gain is inverted; the value projection's gain is missed.

namespace {
struct AlphaOnSublayer {
    static constexpr auto name = "mistake";
    static constexpr auto formula = norm(x + DeepNorm::alpha * f(x));
    static constexpr bool final_norm = false;
};
/// With very many layers alpha is large, and DeepNorm's block is its norm alone, even without its small gains.
template <class P>
bool deep_block_is_its_norm() {
    auto block = drawn_block<P>({.layer = 1, .layers = 100'000'000});
    RandomEngine random(1);
    block.sublayer.initialize(Initializer(random));
    LayerNorm<double>::Cache cache;
    Activations<double> normalized;
    block.norms[0].forward(input, normalized, cache);
    return distance(output(block, input), normalized) < 0.1 * std::sqrt(dot(normalized, normalized));
}
double deviation(const Matrix<double>& weight) {
    double sum = 0.0;
    for (const double entry : weight.storage()) sum += entry * entry;
    return std::sqrt(sum / static_cast<double>(weight.size()));
}
}  // namespace

TEST_CASE("DeepNorm's alpha multiplies the stream") {
    CHECK(deep_block_is_its_norm<DeepNorm>());
    CHECK_FALSE(deep_block_is_its_norm<AlphaOnSublayer>());
}
TEST_CASE("DeepNorm's gain is (8L)^(-1/4), on the value projection too and not on query and key") {
    const std::size_t layers = 32;  // (8 * 32)^(-1/4) = 1/4
    ResidualBlock<DeepNorm, MultiHeadAttention<double>> scaled({.width = 64, .heads = 1},
                                                               {.layer = 1, .layers = layers});
    ResidualBlock<PostLN, MultiHeadAttention<double>> plain({.width = 64, .heads = 1}, {.layer = 1, .layers = layers});
    RandomEngine one(1), again(1);  // the same draws, so the ratios are exact
    scaled.initialize(one);
    plain.initialize(again);
    const auto ratio = [&](auto projection) {
        return deviation((scaled.sublayer.*projection).weight) / deviation((plain.sublayer.*projection).weight);
    };
    CHECK(ratio(&MultiHeadAttention<double>::query) == doctest::Approx(1.0).epsilon(1e-12));
    CHECK(ratio(&MultiHeadAttention<double>::key) == doctest::Approx(1.0).epsilon(1e-12));
    CHECK(ratio(&MultiHeadAttention<double>::value) == doctest::Approx(0.25).epsilon(1e-12));
    CHECK(ratio(&MultiHeadAttention<double>::out) == doctest::Approx(0.25).epsilon(1e-12));
}

// Every layer starts with the same weights.

TEST_CASE("no two layers start alike") {
    Encoder<PostLN, double> encoder({.layers = 4, .width = width, .heads = 2, .feed_forward = 8});
    const auto all_different = [&] {
        for (std::size_t a = 0; a < 4; ++a)
            for (std::size_t b = 0; b < a; ++b)
                if (encoder.layers[a].feed_forward.sublayer.linear1.weight.storage() ==
                    encoder.layers[b].feed_forward.sublayer.linear1.weight.storage())
                    return false;
        return true;
    };
    RandomEngine random(1);
    encoder.initialize(random);
    CHECK(all_different());
    encoder.layers[3] = encoder.layers[1];  // the mistake: deep copies of one layer
    CHECK_FALSE(all_different());
}

// Backward is right only for rank 2; the gain's and the bias's gradients are swapped.

TEST_CASE("a norm's gradients sum over batch and sequence alike, and each is its own") {
    const LayerNorm<double> norm(NormOptions{width});
    const Activations<double> dy = random_activations(2, 3, width, 6);
    const auto gradients_of = [&](const Activations<double>& rows, const Activations<double>& gradient) {
        LayerNorm<double>::Cache cache;
        LayerNorm<double>::Gradients gradients;
        zero_gradients(norm, gradients);
        Activations<double> y, dx;
        norm.forward(rows, y, cache);
        norm.backward(gradient, dx, cache, gradients);
        return std::tuple(gradients, dx, y);
    };
    const auto [gradients, dx, y] = gradients_of(input, dy);
    Activations<double> flat_x = input, flat_dy = dy;
    flat_x.reshape({1, 6, static_cast<int>(width)});
    flat_dy.reshape({1, 6, static_cast<int>(width)});
    const auto [flat, flat_dx, flat_y] = gradients_of(flat_x, flat_dy);
    for (std::size_t i = 0; i < width; ++i) {
        double bias = 0.0, gain = 0.0;
        for (std::size_t r = 0; r < 6; ++r) {
            bias += dy.data()[r * width + i];
            gain += dy.data()[r * width + i] * y.data()[r * width + i];  // gain 1, bias 0: y is the normalized row
        }
        CHECK(gradients.bias[i] == doctest::Approx(bias).epsilon(1e-13));
        CHECK(gradients.gain[i] == doctest::Approx(gain).epsilon(1e-13));
        CHECK(flat.gain[i] == gradients.gain[i]);
        CHECK(flat.bias[i] == gradients.bias[i]);
    }
    for (std::size_t i = 0; i < dx.size(); ++i) CHECK(flat_dx.data()[i] == dx.data()[i]);
}
