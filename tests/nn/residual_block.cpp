// The residual block: forward and backward of every placement's formula, against the formula by hand and against
// central differences.
#include <doctest/doctest.h>

#include <normplace/nn/any_norm.hpp>
#include <normplace/nn/attention.hpp>
#include <normplace/nn/feed_forward.hpp>
#include <normplace/nn/residual_block.hpp>
#include <normplace/placement/visit.hpp>

#include "gradient_check.hpp"

using namespace normplace;
using namespace normplace::test;

namespace {

// Formulas that the catalogue does not have: a scaled sum, a norm in the branch and on the stream, x used three times.
struct Tangled {
    static constexpr auto name = "tangled";
    static constexpr auto formula =
        norm<"last">(0.7 * (norm<"stream">(x) + x) + 0.5 * norm<"branch">(2.0 * f(0.3 * x + norm<"first">(x))));
    static constexpr bool final_norm = false;
};
struct NormThenScaledSum {
    static constexpr auto name = "norm-then-scaled-sum";
    static constexpr auto formula = norm(x) + 0.5 * f(norm<in>(0.5 * x));
    static constexpr bool final_norm = true;
};
struct GatedTwice {  // a number before f, a vector behind, a gate of a sum, f's value read three times
    static constexpr auto name = "gated-twice";
    static constexpr auto branch = f(learned("before", 0.7) * x + norm<"first">(x));
    static constexpr auto formula =
        norm<"last">(gate("sum", 1.3) * (x + 0.5 * branch) - branch) + gate("behind", 0.2) * (branch - x);
    static constexpr bool final_norm = true;
};
struct SublayerOnly {
    static constexpr auto name = "sublayer-only";
    static constexpr auto formula = f(x);
    static constexpr bool final_norm = false;
};

// With attention every placement is checked in encoder.cpp; here the sublayer that compiles fastest stands for all.
template <class N = LayerNorm<double>>
void check_placement(const AnyPlacement& placement) {
    INFO("placement ", std::string(placement.name));
    if (placement.streams() > 1 || &placement == &any_placement<ReZero>) return;  // in encoder.cpp
    const Depth depth{.layer = 3, .layers = 5};
    using Block = AnyBlock<FeedForward<double>, N>;
    check_layer(Block(placement, {.width = 4, .feed_forward = 6, .activation = gelu}, depth, {}), 2, 3, 11);
    check_layer(
        Block(placement, {.width = 5, .feed_forward = 3, .bias = false}, depth, {.epsilon = 1e-3, .bias = false}), 1, 1,
        12);
    check_layer(Block(placement, {.width = 19, .feed_forward = 2, .activation = gelu}, depth, {}), 1, 2,
                13);  // more than a register
}

}  // namespace

TEST_CASE("every placement's backward is the derivative of its forward") {
    for (const AnyPlacement* placement : all_placements())
        if (placement->norm_kind) check_placement<AnyNorm<double>>(*placement);
        else check_placement(*placement);
}

TEST_CASE("a user's own formula is differentiated as well") {
    check_placement(any_placement<Tangled>);
    check_placement(any_placement<NormThenScaledSum>);
    check_placement(any_placement<SublayerOnly>);
    check_placement(any_placement<GatedTwice>);
    check_placement<RMSNorm<double>>(any_placement<Tangled>);
}

TEST_CASE("forward computes the formula as written") {
    const Depth depth{.layer = 4, .layers = 8};
    const auto compute = [&](auto placement, auto by_hand) {
        using P = decltype(placement);
        INFO("placement ", std::string(P::name));
        ResidualBlock<P, FeedForward<double>> block({.width = 4, .feed_forward = 8}, depth);
        randomize_parameters(block, 3);
        const Activations<double> x = random_activations(2, 3, 4, 4);
        Activations<double> y;
        typename ResidualBlock<P, FeedForward<double>>::Cache cache;
        block.forward(x, y, cache);
        const auto sublayer = [&](const Activations<double>& input) {
            Activations<double> output;
            FeedForward<double>::Cache own;
            block.sublayer.forward(input, output, own);
            return output;
        };
        const auto normalize = [&](std::size_t slot, const Activations<double>& input) {
            Activations<double> output;
            if (slot < block.norms.size()) {
                LayerNorm<double>::Cache own;
                block.norms[slot].forward(input, output, own);
            }
            return output;
        };
        const auto sum = [](double alpha, const Activations<double>& a, double beta, const Activations<double>& b) {
            Activations<double> c = a;
            for (std::size_t i = 0; i < c.size(); ++i) c.data()[i] = alpha * a.data()[i] + beta * b.data()[i];
            return c;
        };
        const Activations<double> expected = by_hand(x, sublayer, normalize, sum);
        for (std::size_t i = 0; i < y.size(); ++i)
            CHECK(y.data()[i] == doctest::Approx(expected.data()[i]).epsilon(1e-14));
    };
    compute(PostLN{}, [](auto& x, auto f, auto n, auto sum) { return n(0, sum(1, x, 1, f(x))); });
    compute(PreLN{}, [](auto& x, auto f, auto n, auto sum) { return sum(1, x, 1, f(n(0, x))); });
    compute(NoNorm{}, [](auto& x, auto f, auto, auto sum) { return sum(1, x, 1, f(x)); });
    compute(ResPostNorm{}, [](auto& x, auto f, auto n, auto sum) { return sum(1, x, 1, n(0, f(x))); });
    compute(PeriLN{}, [](auto& x, auto f, auto n, auto sum) { return sum(1, x, 1, n(0, f(n(1, x)))); });
    compute(DeepNorm{},
            [](auto& x, auto f, auto n, auto sum) { return n(0, sum(2, x, 1, f(x))); });  // (2 * 8)^(1/4) = 2
    compute(LayerNormScaling{}, [](auto& x, auto f, auto n, auto sum) {                   // 1/sqrt(4)
        return sum(1, x, 1, f(sum(0.5, n(0, x), 0, x)));
    });
}

TEST_CASE("streams: as many in and out as the placement has, whose block is given them side by side") {
    const ResidualBlock<ResiDual, FeedForward<double>> block({.width = 4, .feed_forward = 6});
    decltype(block)::Cache cache;
    const std::vector<Activations<double>> x{random_activations(2, 3, 4, 1), random_activations(2, 3, 4, 2)};
    std::vector<Activations<double>> y(2);
    block.forward(x, y, cache);
    Activations<double> branch, sum = x[0];
    FeedForward<double>::Cache own;
    block.sublayer.forward(x[0], branch, own);
    for (std::size_t i = 0; i < sum.size(); ++i) {
        CHECK(y[1].data()[i] == doctest::Approx(x[1].data()[i] + branch.data()[i]));
        sum.data()[i] += branch.data()[i];
    }
    LayerNorm<double>::Cache norm_cache;
    block.norms[0].forward(sum, sum, norm_cache);
    for (std::size_t i = 0; i < sum.size(); ++i) CHECK(y[0].data()[i] == doctest::Approx(sum.data()[i]));

    CHECK_THROWS_WITH(block.forward(x[0], y[0], cache), "ResidualBlock: x has 1 streams, expected 2");
    CHECK_THROWS_WITH(block.forward(x, std::span(y).first(1), cache), "ResidualBlock: y has 1 streams, expected 2");
    std::vector<Activations<double>> uneven = x;
    uneven[1] = random_activations(2, 2, 4, 1);
    CHECK_THROWS_WITH(block.forward(uneven, y, cache), "ResidualBlock: x has shape (2, 2, 4), expected (2, 3, 4)");
}

TEST_CASE("a number that a layer shares must be lent to its later blocks") {
    const ResidualBlock<ReZero, FeedForward<double>> block({.width = 4, .feed_forward = 6});
    decltype(block)::Cache cache;
    Activations<double> y;
    CHECK(block.gates.size() == 0);
    CHECK_THROWS_WITH(block.forward(random_activations(1, 2, 4, 1), y, cache),
                      "ResidualBlock: 'a' belongs to the first block of the layer, and is not lent: cache.lent and "
                      "cache.lent_gradients");
    const ResidualBlock<ReZero, MultiHeadAttention<double>> first({.width = 4, .heads = 2});
    CHECK(first.gates.names == std::vector<std::string>{"a"});
}

TEST_CASE("learned factors start where the formula says, and a norm's gain too") {
    const ResidualBlock<LayerScale, FeedForward<float>> scaled({.width = 3, .feed_forward = 2}, {1, 24});
    CHECK(scaled.gates.names == std::vector<std::string>{"lambda"});
    CHECK(scaled.gates[0] == Vector<float>{1e-5f, 1e-5f, 1e-5f});
    const ResidualBlock<SkipInit, FeedForward<float>> silent({.width = 3, .feed_forward = 2});
    CHECK(silent.gates[0] == Vector<float>{0.0f});
    const ResidualBlock<SwinV2, FeedForward<float>> swin({.width = 2, .feed_forward = 2});
    CHECK(swin.norms[0].gain == Vector<float>{0.0f, 0.0f});
}

TEST_CASE("each slot is its own norm, named after the slot") {
    ResidualBlock<PeriLN, FeedForward<float>> block({.width = 2, .feed_forward = 3});
    std::vector<std::string> names;
    for_each_parameter([&](const std::string& name, auto&) { names.push_back(name); }, block);
    CHECK(names == std::vector<std::string>{"linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias",
                                            "norm_out.gain", "norm_out.bias", "norm_in.gain", "norm_in.bias"});
}

TEST_CASE("a block may be shared: two caches do not disturb each other") {
    ResidualBlock<PreLN, FeedForward<double>> block({.width = 4, .feed_forward = 8});
    randomize_parameters(block, 1);
    const Activations<double> x1 = random_activations(1, 2, 4, 1), x2 = random_activations(3, 1, 4, 2);
    Activations<double> y1, y2, dx, expected;
    decltype(block)::Cache cache1, cache2;
    decltype(block)::Gradients gradients;
    zero_gradients(block, gradients);
    block.forward(x1, y1, cache1);
    block.backward(y1, expected, cache1, gradients);
    block.forward(x1, y1, cache1);
    block.forward(x2, y2, cache2);
    block.backward(y1, dx, cache1, gradients);
    for (std::size_t i = 0; i < dx.size(); ++i) CHECK(dx.data()[i] == expected.data()[i]);
}

TEST_CASE("steady state: the second pass allocates nothing new") {
    ResidualBlock<PeriLN, MultiHeadAttention<float>> block({.width = 8, .heads = 2});
    RandomEngine random(1);
    block.initialize(random);
    Activations<float> x, y, dx;
    x.resize({2, 3, 8});
    fill_random(x, 1);
    decltype(block)::Cache cache;
    decltype(block)::Gradients gradients;
    zero_gradients(block, gradients);
    block.forward(x, y, cache);
    block.backward(y, dx, cache, gradients);
    const auto buffers = [&] {
        std::vector<const float*> all{y.data(),
                                      dx.data(),
                                      cache.sublayer.x.data(),
                                      cache.sublayer.query.data(),
                                      cache.sublayer.log_total.data(),
                                      cache.norms[0].normalized.data()};
        for (const auto& node : cache.nodes) all.insert(all.end(), {node.value.data(), node.argument.data()});
        return all;
    };
    const auto before = buffers();
    block.forward(x, y, cache);
    block.backward(y, dx, cache, gradients);
    CHECK(buffers() == before);
}

TEST_CASE("wrong arguments are refused with their values") {
    using Block = ResidualBlock<PreLN, FeedForward<double>>;
    CHECK_THROWS_WITH(Block({.width = 4, .feed_forward = 8}, Depth{.layer = 5, .layers = 4}),
                      "Depth: layer 5 is not one of the layers 1 to 4");
    CHECK_THROWS_WITH(Block({.width = 4, .feed_forward = 8}, Depth{.layer = 0, .layers = 4}),
                      "Depth: layer 0 is not one of the layers 1 to 4");
    const Block block({.width = 4, .feed_forward = 8});
    Block::Cache cache;
    Block::Gradients gradients;
    zero_gradients(block, gradients);
    Activations<double> x = random_activations(2, 3, 4, 1), y, dx;
    CHECK_THROWS_WITH(block.forward(random_activations(2, 3, 5, 1), y, cache),
                      "ResidualBlock: x has shape (2, 3, 5), expected (B, S, 4)");
    CHECK_THROWS_WITH(block.forward(x, x, cache), "ResidualBlock: x and y are the same tensor");
    CHECK_THROWS_WITH(block.backward(x, dx, cache, gradients),
                      "ResidualBlock: backward needs a cache that a forward has filled and no backward has used up");
    block.forward(x, y, cache);
    CHECK_THROWS_WITH(block.backward(y, y, cache, gradients), "ResidualBlock: dy and dx are the same tensor");
}

TEST_CASE("a context argument may not be what the block writes") {
    const ResidualBlock<PreLN, CrossAttention<double>> block({.width = 4, .heads = 2});
    decltype(block)::Cache cache;
    decltype(block)::Gradients gradients;
    zero_gradients(block, gradients);
    Activations<double> x = random_activations(2, 3, 4, 1), y = random_activations(2, 5, 4, 2), memory = y, dx;
    CHECK_THROWS_WITH(block.forward(x, y, cache, y), "ResidualBlock: a context argument and y are the same tensor");
    block.forward(x, y, cache, memory);
    CHECK_THROWS_WITH(block.backward(y, dx, cache, gradients, dx),
                      "ResidualBlock: a context argument and dx are the same tensor");
}

namespace {
/// A user's sublayer without parameters: f(x) = x.
struct Identity {
    using Scalar = double;
    struct Options {
        std::size_t width = 0;
    };
    struct Cache {};
    using Gradients = NoParameters;
    static constexpr SublayerKind kind = SublayerKind::other;

    Options options;
    explicit Identity(const Options& given) : options(given) {}
    std::size_t width() const { return options.width; }
    void initialize(const Initializer&) {}
    void forward(const Activations<double>& x, Activations<double>& y, Cache&) const { y = x; }
    void backward(const Activations<double>& dy, Activations<double>& dx, Cache&, Gradients&) const { dx = dy; }
};
}  // namespace

TEST_CASE("caches and gradients of a block with another placement are refused") {
    const AnyBlock<Identity, LayerNorm<double>> post(any_placement<PostLN>, {.width = 4}, {}, {}),
        peri(any_placement<PeriLN>, {.width = 4}, {}, {}), scaled(any_placement<LayerScale>, {.width = 4}, {}, {});
    decltype(post)::Cache cache;
    decltype(post)::Gradients none, of_peri;
    zero_gradients(peri, of_peri);
    const Activations<double> x = random_activations(1, 2, 4, 1);
    Activations<double> y, dx;
    post.forward(x, y, cache);
    CHECK_THROWS_WITH(post.backward(x, dx, cache, none),
                      "ResidualBlock: gradients have 0 norms and 0 learned factors, expected 1 and 0; call "
                      "zero_gradients first");
    CHECK_THROWS_WITH(peri.backward(x, dx, cache, of_peri),
                      "ResidualBlock: the cache is that of a block with another placement");
    scaled.forward(x, y, cache);
    CHECK_THROWS_WITH(scaled.backward(x, dx, cache, of_peri),
                      "ResidualBlock: gradients have 2 norms and 0 learned factors, expected 1 and 1; call "
                      "zero_gradients first");
}

TEST_CASE("a user's own sublayer, without parameters") {
    check_layer(ResidualBlock<PeriLN, Identity>({.width = 5}), 2, 3, 1);
    check_layer(ResidualBlock<NoNorm, Identity>({.width = 5}), 2, 3, 1);
}

namespace {
struct Unbounded {
    static constexpr auto name = "unbounded";
    static constexpr auto formula =
        x + scalar("1/(l-1)", [](const Depth& depth) { return 1.0 / static_cast<double>(depth.layer - 1); }) * f(x);
    static constexpr bool final_norm = false;
    static double gain(Role, const Depth&) { return -1.0; }
};
}  // namespace

TEST_CASE("a scalar that is not finite, or a negative gain, is refused with its value") {
    using Block = ResidualBlock<Unbounded, Identity>;
    CHECK_THROWS_WITH(Block({.width = 2}, {.layer = 1, .layers = 3}), "the scalar '1/(l-1)' is inf at layer 1 of 3");
    ResidualBlock<Unbounded, FeedForward<double>> drawn({.width = 2, .feed_forward = 2}, {.layer = 2, .layers = 3});
    RandomEngine random(1);
    CHECK_THROWS_WITH(drawn.initialize(random),
                      "unbounded: the gain is -1.000000 at layer 2 of 3, expected a finite number of at least 0");
}

TEST_CASE("nothing to compute is defined") {
    const ResidualBlock<PreLN, MultiHeadAttention<double>> block({.width = 4, .heads = 2});
    decltype(block)::Cache cache;
    decltype(block)::Gradients gradients;
    zero_gradients(block, gradients);
    const Activations<double> x = random_activations(0, 3, 4, 1);
    Activations<double> y, dx;
    block.forward(x, y, cache);
    block.backward(x, dx, cache, gradients);
    CHECK(y.shape()[1] == 3);
    CHECK(dx.size() == 0);
}

namespace {

/// f(u) = u + reversed(u), with a buffer of its own that is called x, as the library's sublayers call their input.
struct Mirror {
    using Scalar = double;
    struct Options {};
    struct Cache {
        Activations<double> x;
    };
    using Gradients = NoParameters;
    static constexpr SublayerKind kind = SublayerKind::feed_forward;
    explicit Mirror(const Options&) {}
    std::size_t width() const { return 4; }
    void initialize(const Initializer&) {}
    void forward(const Activations<double>& u, Activations<double>& y, Cache& cache) const {
        detail::reshape(cache.x, detail::shape_of(u));
        for (std::size_t i = 0; i < u.size(); ++i) cache.x.data()[i] = u.data()[i / 4 * 4 + 3 - i % 4];
        detail::reshape(y, detail::shape_of(u));
        for (std::size_t i = 0; i < u.size(); ++i) y.data()[i] = u.data()[i] + cache.x.data()[i];
    }
    void backward(const Activations<double>& dy, Activations<double>& dx, Cache& cache, Gradients&) const {
        forward(dy, dx, cache);
    }
};

/// Drops a token, which no sublayer may.
struct Dropping : Mirror {
    using Mirror::Mirror;
    void forward(const Activations<double>& u, Activations<double>& y, Cache&) const {
        y.resize({u.shape()[0], u.shape()[1] - 1, 4});
        y.fill(0.0);
    }
};

/// Half of what LayerNorm gives.
struct HalfNorm : LayerNorm<double> {
    using LayerNorm<double>::LayerNorm;
    void forward(const Activations<double>& x, Activations<double>& y, Cache& cache) const {
        LayerNorm<double>::forward(x, y, cache);
        for (double& v : y) v *= 0.5;
    }
};

}  // namespace

TEST_CASE("a sublayer's own buffers are its own, whatever they are called") {
    const ResidualBlock<NoNorm, Mirror> block({});
    decltype(block)::Cache cache;
    Activations<double> x = Activations<double>::from_shape({1, 1, 4}), y;
    for (std::size_t i = 0; i < 4; ++i) x.data()[i] = static_cast<double>(i);
    block.forward(x, y, cache);
    for (std::size_t i = 0; i < 4; ++i) CHECK(y.data()[i] == static_cast<double>(i) + 3.0);
}

TEST_CASE("a sublayer that gives another shape is refused") {
    const ResidualBlock<PreLN, Dropping> block({});
    decltype(block)::Cache cache;
    Activations<double> x = Activations<double>::from_shape({1, 2, 4}), y;
    x.fill(1.0);
    CHECK_THROWS_WITH(block.forward(x, y, cache),
                      "ResidualBlock: the sublayer's y has shape (1, 1, 4), expected (1, 2, 4)");
}

TEST_CASE("a norm derived from LayerNorm runs its own functions") {
    const ResidualBlock<PostLN, Mirror> plain({});
    const ResidualBlock<PostLN, Mirror, HalfNorm> half({});
    decltype(plain)::Cache plain_cache;
    decltype(half)::Cache half_cache;
    Activations<double> x = Activations<double>::from_shape({1, 1, 4}), y, z;
    for (std::size_t i = 0; i < 4; ++i) x.data()[i] = static_cast<double>(i * i);
    plain.forward(x, y, plain_cache);
    half.forward(x, z, half_cache);
    for (std::size_t i = 0; i < 4; ++i) CHECK(z.data()[i] == 0.5 * y.data()[i]);
}
