// Multi-head attention: gradients under every mask, the edges of masks, cross-attention of another length, and the
// norms inside.
#include <doctest/doctest.h>

#include <limits>

#include <normplace/nn/attention.hpp>

#include "all_inner_norms.hpp"
#include "gradient_check.hpp"

using namespace normplace;
using namespace normplace::test;

namespace {

using SelfAttention = MultiHeadAttention<double>;

struct Sizes {
    std::size_t batch, length, memory, width, heads;
};

/// Masks the last `padding[b]` keys of sequence b.
KeyPaddingMask padding_mask(std::size_t keys, const std::vector<std::size_t>& padding) {
    KeyPaddingMask mask;
    mask.resize({padding.size(), keys});
    for (std::size_t b = 0; b < padding.size(); ++b)
        for (std::size_t j = 0; j < keys; ++j) mask(b, j) = j + padding[b] >= keys;
    return mask;
}

/// Each flag of attention's alone, the published choices, and all together.
const SublayerNorms inner_norms[] = {{.query = true},
                                     {.key = true},
                                     {.value = true},
                                     {.heads = true},
                                     {.head_scale = true},
                                     {.query_key_scale = true},
                                     {.query = true, .key = true},
                                     {.query = true, .key = true, .query_key_scale = true},
                                     {.query = true, .key = true, .value = true},
                                     {.heads = true, .head_scale = true},
                                     all_inner_norms};

std::string text(const SublayerNorms& norms) {
    return std::string(norms.query ? "query " : "") + (norms.key ? "key " : "") + (norms.value ? "value " : "") +
           (norms.query_key_scale ? "query_key_scale " : "") + (norms.heads ? "heads " : "") +
           (norms.head_scale ? "head_scale " : "");
}

template <class Layer>
void check_cross_attention(Layer layer, const Sizes& size, const KeyPaddingMask& mask) {
    randomize_parameters(layer, 5);
    Activations<double> x = random_activations(size.batch, size.length, size.width, 6),
                        memory = random_activations(size.batch, size.memory, size.width, 7), y, dx, dmemory;
    const Activations<double> dy = random_activations(size.batch, size.length, size.width, 8);
    typename Layer::Cache cache;
    typename Layer::Gradients gradients;
    zero_gradients(layer, gradients);
    layer.forward(x, y, cache, memory, mask);
    layer.backward(dy, dx, cache, gradients, dmemory);
    std::vector<Checked> all{checked("x", x, dx), checked("memory", memory, dmemory)};
    add_parameters(all, layer, gradients);
    check_gradients(all, [&] {
        layer.forward(x, y, cache, memory, mask);
        return dot(y, dy);
    });
}

}  // namespace

TEST_CASE("self-attention gradients, of every shape and mask") {
    for (const bool causal : {false, true})
        for (const bool bias : {true, false})
            for (const bool projection : {true, false})
                for (const Sizes& size : {Sizes{1, 1, 1, 1, 1}, {2, 3, 3, 6, 2}, {1, 5, 5, 3, 1}, {3, 2, 2, 4, 4}}) {
                    const auto b = size.batch, s = size.length, d = size.width, h = size.heads;
                    INFO("causal ", causal, ", ", "bias ", bias, ", ", "projection ", projection, ", ", "b ", b, ", ",
                         "s ", s, ", ", "d ", d, ", ", "h ", h);
                    const SelfAttention layer({d, h, causal, bias, projection});
                    check_layer(layer, b, s, 3);
                    std::vector<std::size_t> padding(b, 0);
                    padding[0] = s - 1;
                    check_layer(layer, b, s, 4, padding_mask(s, padding));
                }
}

TEST_CASE("cross-attention gradients, with a memory of another length") {
    for (const Sizes& size : {Sizes{2, 3, 5, 6, 2}, {1, 4, 1, 3, 1}, {2, 1, 2, 4, 4}, {1, 1, 1, 1, 1}})
        for (const bool masked : {false, true}) {
            const auto b = size.batch, s = size.length, m = size.memory, d = size.width, h = size.heads;
            INFO("b ", b, ", ", "s ", s, ", ", "m ", m, ", ", "d ", d, ", ", "h ", h, ", ", "masked ", masked);
            const KeyPaddingMask mask = masked ? padding_mask(m, std::vector<std::size_t>(b, m / 2)) : KeyPaddingMask{};
            check_cross_attention(CrossAttention<double>({.width = d, .heads = h}), size, mask);
        }
}

TEST_CASE("one token attends to itself alone") {
    SelfAttention layer({.width = 2, .heads = 1, .bias = false});
    randomize_parameters(layer, 1);
    Activations<double> x = random_activations(1, 1, 2, 2), y, v, expected;
    SelfAttention::Cache cache;
    layer.forward(x, y, cache);
    layer.value.forward(x, v);
    layer.out.forward(v, expected);
    for (std::size_t i = 0; i < 2; ++i) CHECK(y.data()[i] == doctest::Approx(expected.data()[i]));
}

TEST_CASE("causal: a token does not see what comes after it") {
    SelfAttention layer({.width = 4, .heads = 2, .causal = true});
    randomize_parameters(layer, 1);
    Activations<double> x = random_activations(1, 5, 4, 2), before, after;
    SelfAttention::Cache cache;
    layer.forward(x, before, cache);
    for (std::size_t i = 0; i < 4; ++i) x(0, 3, i) += 1.0;
    layer.forward(x, after, cache);
    for (std::size_t s = 0; s < 5; ++s)
        for (std::size_t i = 0; i < 4; ++i) CHECK((before(0, s, i) == after(0, s, i)) == (s < 3));
}

TEST_CASE("a masked key is as good as absent") {
    SelfAttention layer({.width = 4, .heads = 2});
    randomize_parameters(layer, 1);
    Activations<double> x = random_activations(1, 5, 4, 2), shorter, y, expected;
    shorter.resize({1, 3, 4});
    std::copy(x.data(), x.data() + 12, shorter.data());
    SelfAttention::Cache cache;
    layer.forward(x, y, cache, padding_mask(5, {2}));
    layer.forward(shorter, expected, cache);
    for (std::size_t i = 0; i < 12; ++i) CHECK(y.data()[i] == doctest::Approx(expected.data()[i]).epsilon(1e-14));
}

namespace {

/// Attention whose forward sets the key of its own weights' dropout, so that the shared gradient check can run it.
template <class Attention>
struct DroppingWeights : Attention {
    using Attention::Attention;
    DropoutKey dropout{.seed = 3, .rate = 0.4};

    template <class... Context>
    void forward(const Activations<double>& x, Activations<double>& y, typename Attention::Cache& cache,
                 const Context&... context) const {
        cache.attention_dropout = dropout;
        Attention::forward(x, y, cache, context...);
        cache.attention_dropout = {};  // for the next forward: this one's backward has its own
    }
};

}  // namespace

TEST_CASE("gradients with dropout of the weights, causal and not, with padding, norms and a memory") {
    for (const bool causal : {false, true})
        for (const bool projection : {true, false})
            for (const SublayerNorms& norms : {SublayerNorms{}, all_inner_norms})
                for (const Sizes& size : {Sizes{1, 1, 1, 1, 1}, {2, 5, 5, 6, 2}}) {
                    INFO("causal ", causal, ", projection ", projection, ", ", text(norms), "width ", size.width);
                    const DroppingWeights<SelfAttention> layer(
                        AttentionOptions{size.width, size.heads, causal, true, projection, norms, 0.1});
                    check_layer(layer, size.batch, size.length, 3);
                    std::vector<std::size_t> padding(size.batch, 0);
                    padding[0] = size.length - 1;
                    check_layer(layer, size.batch, size.length, 4, padding_mask(size.length, padding));
                }
    check_cross_attention(DroppingWeights<CrossAttention<double>>(AttentionOptions{.width = 6, .heads = 2}),
                          {2, 3, 5, 6, 2}, padding_mask(5, {2, 0}));
}

TEST_CASE("dropout of the weights: at rate 0 no bit changes, and a query that sees nothing keeps its 0") {
    SelfAttention layer({.width = 4, .heads = 2, .output_projection = false});
    randomize_parameters(layer, 1);
    const Activations<double> x = random_activations(2, 3, 4, 2);
    Activations<double> plain, y, dx;
    SelfAttention::Cache cache;
    SelfAttention::Gradients gradients;
    zero_gradients(layer, gradients);
    layer.forward(x, plain, cache, padding_mask(3, {3, 0}));
    cache.attention_dropout = {.seed = 5, .attention_rate = 0.5};  // which a sublayer's own key does not have
    CHECK_THROWS_WITH_AS(
        layer.forward(x, y, cache),
        "Dropout: attention_rate is 0.5 and activation_rate is 0, expected 0: inside a sublayer a key's "
        "rate is the one that counts",
        std::invalid_argument);
    cache.attention_dropout = {.seed = 5, .rate = 0.0};
    layer.forward(x, y, cache, padding_mask(3, {3, 0}));
    CHECK(y == plain);
    cache.attention_dropout = {.seed = 5, .rate = 0.5};
    layer.forward(x, y, cache, padding_mask(3, {3, 0}));
    layer.backward(x, dx, cache, gradients);
    CHECK(y != plain);
    for (std::size_t i = 0; i < 12; ++i) {
        CHECK(y.data()[i] == 0.0);
        CHECK(dx.data()[i] == 0.0);
    }
    for (std::size_t i = 12; i < 24; ++i) CHECK(std::isfinite(dx.data()[i]));
    // Decoding has none, whatever the key.
    Activations<double> token, decoded;
    token.resize({2, 1, 4});
    for (std::size_t i = 0; i < 8; ++i) token.data()[i] = x(i / 4, 0, i % 4);
    SelfAttention::Cache other;
    layer.forward(token, y, other);
    layer.forward(token, decoded, cache, DecodingStep{.position = 0, .length = 3});
    CHECK(decoded == y);
    cache.attention_dropout = {.seed = 5, .rate = 1.0};
    CHECK_THROWS_WITH(layer.forward(x, y, cache), "Dropout: rate is 1, expected a number in [0, 1)");
}

TEST_CASE("a query whose keys are all masked gets 0, and a zero gradient") {
    for (const bool causal : {false, true}) {
        SelfAttention layer({.width = 4, .heads = 2, .causal = causal, .output_projection = false});
        randomize_parameters(layer, 1);
        Activations<double> x = random_activations(2, 3, 4, 2), y, dx;
        const Activations<double> dy = random_activations(2, 3, 4, 3);
        SelfAttention::Cache cache;
        SelfAttention::Gradients gradients;
        zero_gradients(layer, gradients);
        layer.forward(x, y, cache, padding_mask(3, {3, 0}));
        layer.backward(dy, dx, cache, gradients);
        for (std::size_t i = 0; i < 12; ++i) {
            CHECK(y.data()[i] == 0.0);
            CHECK(dx.data()[i] == 0.0);
        }
        for (std::size_t i = 12; i < 24; ++i) CHECK(dx.data()[i] != 0.0);
        for_each_parameter(
            [](const std::string&, auto&, auto& gradient) {
                for (const double entry : gradient.storage()) CHECK(std::isfinite(entry));
            },
            layer, gradients);
    }
}

TEST_CASE("large scores do not overflow") {
    MultiHeadAttention<float> layer({.width = 2, .heads = 1, .bias = false});
    layer.query.weight.fill(100.0f);
    layer.key.weight.fill(100.0f);
    Activations<float> x, y;
    x.resize({1, 3, 2});
    for (std::size_t i = 0; i < 6; ++i) x.data()[i] = static_cast<float>(i);
    MultiHeadAttention<float>::Cache cache;
    layer.forward(x, y, cache);
    for (const float entry : y.storage()) CHECK(std::isfinite(entry));
}

TEST_CASE("NaN in gives NaN out, in its own sequence only") {
    SelfAttention layer({.width = 4, .heads = 2});
    randomize_parameters(layer, 1);
    Activations<double> x = random_activations(2, 3, 4, 2), y;
    x(0, 1, 2) = std::numeric_limits<double>::quiet_NaN();
    SelfAttention::Cache cache;
    layer.forward(x, y, cache);
    for (std::size_t i = 0; i < 12; ++i) CHECK(std::isnan(y.data()[i]));
    for (std::size_t i = 12; i < 24; ++i) CHECK(std::isfinite(y.data()[i]));
}

TEST_CASE("no tokens and no memory are defined") {
    SelfAttention layer({.width = 4, .heads = 2});
    SelfAttention::Cache cache;
    SelfAttention::Gradients gradients;
    zero_gradients(layer, gradients);
    Activations<double> x = random_activations(2, 0, 4, 1), y, dx;
    layer.forward(x, y, cache);
    CHECK(y.size() == 0);
    layer.backward(y, dx, cache, gradients);
    CHECK(dx.size() == 0);

    CrossAttention<double> cross({.width = 4, .heads = 2, .bias = false});
    randomize_parameters(cross, 1);
    CrossAttention<double>::Cache cross_cache;
    CrossAttention<double>::Gradients cross_gradients;
    zero_gradients(cross, cross_gradients);
    const Activations<double> queries = random_activations(2, 3, 4, 1), nothing = random_activations(2, 0, 4, 1);
    Activations<double> dmemory;
    cross.forward(queries, y, cross_cache, nothing);
    for (const double entry : y.storage()) CHECK(entry == 0.0);
    cross.backward(queries, dx, cross_cache, cross_gradients, dmemory);
    for (const double entry : dx.storage()) CHECK(entry == 0.0);
    CHECK(dmemory.size() == 0);
}

TEST_CASE("wrong arguments are refused with their values") {
    CHECK_THROWS_WITH(SelfAttention({.width = 30, .heads = 4}),
                      "MultiHeadAttention: model width 30 is not divisible by 4 heads");
    CHECK_THROWS_WITH(SelfAttention({.width = 4, .heads = 0}), "MultiHeadAttention: heads is 0, expected at least 1");
    CHECK_THROWS_WITH(SelfAttention({.width = 0, .heads = 1}),
                      "MultiHeadAttention: model width is 0, expected at least 1");
    CHECK_THROWS_WITH(CrossAttention<float>({.width = 4, .heads = 1, .causal = true}),
                      "CrossAttention: causal is true, but a memory has no order relative to the queries");
    const SelfAttention layer({.width = 4, .heads = 2});
    SelfAttention::Cache cache;
    Activations<double> x = random_activations(2, 3, 4, 1), y;
    CHECK_THROWS_WITH(layer.forward(random_activations(2, 3, 5, 1), y, cache),
                      "MultiHeadAttention: x has shape (2, 3, 5), expected (B, S, 4)");
    CHECK_THROWS_WITH(layer.forward(x, y, cache, padding_mask(4, {0, 0})),
                      "MultiHeadAttention: key padding mask has shape (2, 4), expected (2, 3)");
    CHECK_THROWS_WITH(layer.forward(x, x, cache), "MultiHeadAttention: x and y are the same tensor");
    // A cache of another number of heads, or of another kind of attention.
    const SelfAttention one_head({.width = 4, .heads = 1}), four_heads({.width = 4, .heads = 4});
    SelfAttention::Gradients gradients;
    zero_gradients(layer, gradients);
    Activations<double> dx;
    one_head.forward(x, y, cache);
    CHECK_THROWS_WITH(four_heads.backward(y, dx, cache, gradients),
                      "MultiHeadAttention: the cache's log_total has shape (2, 3), expected (8, 3)");
    const CrossAttention<double> crossed({.width = 4, .heads = 1});
    Activations<double> dmemory;
    crossed.forward(x, y, cache, random_activations(2, 5, 4, 1));
    CHECK_THROWS_WITH(one_head.backward(y, dx, cache, gradients),
                      "MultiHeadAttention: the cache's key has shape (2, 5, 4), expected (2, 3, 4)");
    one_head.forward(x, y, cache);
    CHECK_THROWS_WITH(crossed.backward(y, dx, cache, gradients, dmemory),
                      "CrossAttention: the cache's key has shape (2, 3, 4), expected (2, 0, 4)");
    const CrossAttention<double> cross({.width = 4, .heads = 2});
    CrossAttention<double>::Cache cross_cache;
    CHECK_THROWS_WITH(cross.forward(x, y, cross_cache, random_activations(1, 5, 4, 1)),
                      "CrossAttention: memory has shape (1, 5, 4), expected (2, 5, 4)");
}

TEST_CASE("a cache is used up by backward, and that of another layer is refused") {
    check_cache(MultiHeadAttention<double>({.width = 4, .heads = 4}),
                MultiHeadAttention<double>({.width = 4, .heads = 1}), "MultiHeadAttention",
                "MultiHeadAttention: the cache's log_total has shape (1, 2), expected (4, 2)");
}

TEST_CASE_TEMPLATE("gradients with norms inside self-attention", N, LayerNorm<double>, RMSNorm<double>) {
    for (const SublayerNorms& norms : inner_norms)
        for (const bool bias : {true, false})
            for (const bool projection : {true, false})
                for (const Sizes& size : {Sizes{1, 1, 1, 1, 1}, {2, 3, 3, 6, 2}, {2, 1, 1, 3, 1}, {1, 3, 3, 4, 4}}) {
                    INFO(text(norms), "bias ", bias, ", projection ", projection, ", width ", size.width, ", heads ",
                         size.heads);
                    const MultiHeadAttention<double, N> layer(
                        {size.width, size.heads, bias, bias, projection, norms, 0.1});
                    check_layer(layer, size.batch, size.length, 3);
                    std::vector<std::size_t> padding(size.batch, 0);
                    padding[0] = size.length - 1;
                    check_layer(layer, size.batch, size.length, 4, padding_mask(size.length, padding));
                }
}

TEST_CASE("gradients with norms inside cross-attention") {
    for (const SublayerNorms& norms : inner_norms)
        for (const Sizes& size : {Sizes{2, 3, 5, 6, 2}, {1, 2, 1, 2, 2}}) {
            INFO(text(norms), "width ", size.width);
            check_cross_attention(
                CrossAttention<double>({.width = size.width, .heads = size.heads, .norms = norms, .norm_epsilon = 0.1}),
                size, padding_mask(size.memory, std::vector<std::size_t>(size.batch, size.memory / 2)));
        }
}

TEST_CASE("decoding token by token gives the rows of the whole forward, with norms inside as without") {
    constexpr std::size_t b = 2, s = 4, m = 3, d = 6;
    for (const SublayerNorms& norms : {SublayerNorms{}, SublayerNorms{.key = true}, all_inner_norms})
        for (const bool projection : {true, false}) {
            INFO(text(norms), "projection ", projection);
            SelfAttention layer({d, 2, true, true, projection, norms});
            CrossAttention<double> cross({d, 2, false, true, projection, norms});
            randomize_parameters(layer, 1);
            randomize_parameters(cross, 2);
            const Activations<double> x = random_activations(b, s, d, 3), memory = random_activations(b, m, d, 4);
            const KeyPaddingMask mask = padding_mask(m, {1, 0});
            SelfAttention::Cache cache, stepped;
            CrossAttention<double>::Cache cross_cache, cross_stepped;
            Activations<double> y, z, token, y_token, z_token;
            layer.forward(x, y, cache);
            cross.forward(x, z, cross_cache, memory, mask);
            token.resize({b, 1, d});
            double difference = 0.0;
            for (std::size_t t = 0; t < s; ++t) {
                for (std::size_t i = 0; i < b * d; ++i) token.data()[i] = x(i / d, t, i % d);
                const DecodingStep step{.position = t, .length = s};
                layer.forward(token, y_token, stepped, step);
                cross.forward(token, z_token, cross_stepped, memory, mask, step);
                for (std::size_t i = 0; i < b * d; ++i) {
                    difference = std::max(difference, std::abs(y_token.data()[i] - y(i / d, t, i % d)));
                    difference = std::max(difference, std::abs(z_token.data()[i] - z(i / d, t, i % d)));
                }
            }
            CHECK(difference < 1e-13);  // sums of a few terms of order 1
        }
}

TEST_CASE("with QK-norm the scores do not grow with W_q and W_k") {
    for (const bool norm : {true, false}) {
        SelfAttention layer(
            {.width = 6, .heads = 2, .bias = false, .norms = {.query = norm, .key = norm}, .norm_epsilon = 1e-12});
        randomize_parameters(layer, 1);
        const Activations<double> x = random_activations(1, 5, 6, 2);
        Activations<double> before, after;
        SelfAttention::Cache cache;
        layer.forward(x, before, cache);
        for (double& weight : layer.query.weight.storage()) weight *= 1e6;
        for (double& weight : layer.key.weight.storage()) weight *= 1e6;
        layer.forward(x, after, cache);
        double difference = 0.0;
        for (std::size_t i = 0; i < 30; ++i)
            difference = std::max(difference, std::abs(after.data()[i] - before.data()[i]));
        if (norm) CHECK(difference < 1e-9);  // epsilon, in a variance of order 0.1 before and 1e11 after
        else CHECK(difference > 0.1);
    }
}

TEST_CASE("queries and keys of length 1 with their factors: scores are sqrt(K) times a cosine at the start") {
    MultiHeadAttention<double, UnitNorm<double>> layer({.width = 4,
                                                        .heads = 1,
                                                        .output_projection = false,
                                                        .norms = {.query = true, .key = true, .query_key_scale = true},
                                                        .norm_epsilon = 1e-300});
    CHECK(layer.norms.query_key_scale == Vector<double>{2.0, 2.0, 2.0, 2.0});
    for (auto* linear : {&layer.query, &layer.key, &layer.value})
        for (std::size_t i = 0; i < 16; ++i) linear->weight.data()[i] = i % 5 == 0 ? 1.0 : 0.0;
    // Values are the tokens: of the first two entries, lengths 5 and 2, and a cosine of 0.6 between them.
    const Activations<double> x{{{3.0, 4.0, 0.0, 0.0}, {2.0, 0.0, 0.0, 0.0}}};
    Activations<double> y;
    MultiHeadAttention<double, UnitNorm<double>>::Cache cache;
    layer.forward(x, y, cache);
    const double same = std::exp(2.0), other = std::exp(2.0 * 0.6);
    CHECK(y(0, 0, 1) == doctest::Approx(4.0 * same / (same + other)).epsilon(1e-12));
    layer.norms.query_key_scale[0] = -6.0;  // 9 times as much of the first entries' products, 0.36, 0.6 and 1
    layer.forward(x, y, cache);
    const double first = std::exp(2.0 * (9.0 * 0.36 + 0.64)), second = std::exp(2.0 * 9.0 * 0.6);
    CHECK(y(0, 0, 1) == doctest::Approx(4.0 * first / (first + second)).epsilon(1e-12));
}

TEST_CASE("a head's factor comes before the heads' norm, which takes a common one out") {
    SelfAttention layer({.width = 4, .heads = 2, .norms = {.heads = true, .head_scale = true}, .norm_epsilon = 1e-12});
    CHECK(layer.norms.head_scale[0] == 1.0);
    CHECK(layer.norms.head_scale[1] == 1.0);
    randomize_parameters(layer, 1);
    layer.norms.head_scale.fill(1.0);
    const Activations<double> x = random_activations(1, 3, 4, 2);
    Activations<double> before, common, one;
    SelfAttention::Cache cache;
    layer.forward(x, before, cache);
    layer.norms.head_scale.fill(3.0);
    layer.forward(x, common, cache);
    layer.norms.head_scale[1] = 6.0;
    layer.forward(x, one, cache);
    for (std::size_t i = 0; i < 12; ++i) {
        CHECK(common.data()[i] == doctest::Approx(before.data()[i]).epsilon(1e-9));
        CHECK(std::abs(one.data()[i] - before.data()[i]) > 1e-3);
    }
}

TEST_CASE("norms inside attention have parameters exactly where they are asked for") {
    const auto names = [](const SublayerNorms& norms, bool bias) {
        const MultiHeadAttention<float> layer({.width = 6, .heads = 2, .bias = bias, .norms = norms});
        std::string all;
        for_each_parameter(
            [&](const std::string& name, const auto& value) {
                if (name.find('_') != std::string::npos) all += name + ' ' + std::to_string(value.size()) + ' ';
            },
            layer);
        return all;
    };
    CHECK(names({.hidden = true}, true) == "");
    CHECK(names({.key = true}, true) == "key_norm.gain 3 key_norm.bias 3 ");
    CHECK(names(all_inner_norms, false) ==
          "query_norm.gain 3 key_norm.gain 3 value_norm.gain 3 query_key_scale 6 head_scale 2 heads_norm.gain 6 ");
}

TEST_CASE("with norms inside, a query whose keys are all masked still gets 0, and a zero gradient") {
    SelfAttention layer({.width = 4, .heads = 2, .bias = false, .output_projection = false, .norms = all_inner_norms});
    randomize_parameters(layer, 1);
    const Activations<double> x = random_activations(2, 3, 4, 2), dy = random_activations(2, 3, 4, 3);
    Activations<double> y, dx;
    SelfAttention::Cache cache;
    SelfAttention::Gradients gradients;
    zero_gradients(layer, gradients);
    layer.forward(x, y, cache, padding_mask(3, {3, 0}));
    layer.backward(dy, dx, cache, gradients);
    for (std::size_t i = 0; i < 12; ++i) {
        CHECK(y.data()[i] == 0.0);
        CHECK(dx.data()[i] == 0.0);
    }
    for (std::size_t i = 12; i < 24; ++i) CHECK(dx.data()[i] != 0.0);
}

TEST_CASE("the cache or the gradients of attention with other norms are refused") {
    const SelfAttention plain({.width = 4, .heads = 2}), normed({.width = 4, .heads = 2, .norms = {.heads = true}}),
        scaled({.width = 4, .heads = 2, .norms = {.head_scale = true}}),
        entries({.width = 4, .heads = 2, .norms = {.query_key_scale = true}});
    const Activations<double> x = random_activations(1, 3, 4, 1);
    Activations<double> y, dx;
    SelfAttention::Cache cache;
    SelfAttention::Gradients gradients;
    zero_gradients(normed, gradients);
    plain.forward(x, y, cache);
    CHECK_THROWS_WITH(normed.backward(x, dx, cache, gradients),
                      "MultiHeadAttention: the cache's mixed has shape (0, 0, 0), expected (1, 3, 4)");
    scaled.forward(x, y, cache);
    CHECK_THROWS_WITH(scaled.backward(x, dx, cache, gradients),
                      "MultiHeadAttention: gradients.head_scale has shape (0), expected (2)");
    plain.forward(x, y, cache);
    CHECK_THROWS_WITH(entries.backward(x, dx, cache, gradients),
                      "MultiHeadAttention: the cache's unscaled_query has shape (0, 0, 0), expected (1, 3, 4)");
    entries.forward(x, y, cache);
    CHECK_THROWS_WITH(entries.backward(x, dx, cache, gradients),
                      "MultiHeadAttention: gradients.query_key_scale has shape (0), expected (4)");
    CHECK_THROWS_WITH(SelfAttention({.width = 4, .heads = 2, .norms = {.key = true}, .norm_epsilon = -1.0}),
                      "LayerNorm: epsilon -1 is not positive and finite");
}
