// Every matrix product of the library arrives at the BLAS. xtensor-blas has a generic product, seventy times slower,
// that a call falls into without a word where a type differs: alpha a double with float data, a size a size_t. So this
// program stands between the library and the BLAS and counts multiply-adds: those of a product that is split over
// threads are the same, those of a product that goes elsewhere are missing.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <type_traits>

#include <normplace/nn/attention.hpp>
#include <normplace/nn/feed_forward.hpp>
#include <normplace/nn/linear.hpp>

using namespace normplace;

namespace {

std::atomic<std::size_t> float_work, double_work;

// Of this program's own products the linker sees no need of a BLAS, and would leave it out.
[[maybe_unused]] auto* volatile kept = &cblas_sasum;

/// The real function of this name, behind this program's own.
template <class Function>
Function* next(const std::string& name) {
    void* const symbol = dlsym(RTLD_NEXT, name.c_str());
    REQUIRE_MESSAGE(symbol, "no shared library has " << name << ": this test needs the BLAS to be one");
    return reinterpret_cast<Function*>(symbol);
}

std::size_t multiply_adds(int m, int n, int k) {
    return static_cast<std::size_t>(m) * static_cast<std::size_t>(n) * static_cast<std::size_t>(k);
}

/// The multiply-adds of `body` in T's product; none may be in the other type's.
template <class T, class Body>
std::size_t work_of(Body&& body) {
    float_work = 0;
    double_work = 0;
    body();
    CHECK((std::is_same_v<T, float> ? double_work : float_work) == 0);
    return std::is_same_v<T, float> ? float_work : double_work;
}

template <class T>
Activations<T> ones(std::size_t b, std::size_t s, std::size_t d) {
    Activations<T> x;
    x.resize({b, s, d});
    x.fill(T(1));
    return x;
}

}  // namespace

extern "C" void cblas_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE trans_a, CBLAS_TRANSPOSE trans_b, CBLAS_INT m,
                            CBLAS_INT n, CBLAS_INT k, float alpha, const float* a, CBLAS_INT lda, const float* b,
                            CBLAS_INT ldb, float beta, float* c, CBLAS_INT ldc) {
    static auto* const real = next<decltype(cblas_sgemm)>("cblas_sgemm");
    float_work += multiply_adds(m, n, k);
    real(order, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
extern "C" void cblas_dgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE trans_a, CBLAS_TRANSPOSE trans_b, CBLAS_INT m,
                            CBLAS_INT n, CBLAS_INT k, double alpha, const double* a, CBLAS_INT lda, const double* b,
                            CBLAS_INT ldb, double beta, double* c, CBLAS_INT ldc) {
    static auto* const real = next<decltype(cblas_dgemm)>("cblas_dgemm");
    double_work += multiply_adds(m, n, k);
    real(order, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

TEST_CASE_TEMPLATE("a linear layer's three products", T, float, double) {
    for (const std::size_t sequence :
         {std::size_t{4}, std::size_t{600}}) {  // on one thread, and on as many as there are
        const Linear<T> linear(24, 40);
        typename Linear<T>::Gradients gradients;
        zero_gradients(linear, gradients);
        const auto x = ones<T>(2, sequence, 24), dy = ones<T>(2, sequence, 40);
        Activations<T> y, dx;
        const std::size_t product = 2 * sequence * 24 * 40;
        CHECK(work_of<T>([&] { linear.forward(x, y); }) == product);
        CHECK(work_of<T>([&] { linear.backward(x, dy, dx, gradients); }) == 2 * product);
        CHECK(work_of<T>([&] { linear.backward_parameters(x, dy, gradients); }) == product);
    }
}

TEST_CASE_TEMPLATE("a feed-forward network's products", T, float, double) {
    const FeedForward<T> layer({.width = 16, .feed_forward = 64});
    typename FeedForward<T>::Gradients gradients;
    typename FeedForward<T>::Cache cache;
    zero_gradients(layer, gradients);
    const auto x = ones<T>(2, 8, 16);
    Activations<T> y, dx;
    const std::size_t product = 2 * 8 * 16 * 64;
    CHECK(work_of<T>([&] { layer.forward(x, y, cache); }) == 2 * product);
    CHECK(work_of<T>([&] { layer.backward(y, dx, cache, gradients); }) == 4 * product);
}

TEST_CASE_TEMPLATE("attention's products: the projections', and those of scores and weights", T, float, double) {
    const std::size_t b = 2, s = 8, m = 5, d = 16, projection = b * s * d * d, tile = b * s * s * d;
    const auto x = ones<T>(b, s, d), memory = ones<T>(b, m, d);
    Activations<T> y, dx, dmemory;
    for (const bool causal : {false, true}) {
        const MultiHeadAttention<T> layer({.width = d, .heads = 2, .causal = causal});
        typename MultiHeadAttention<T>::Gradients gradients;
        typename MultiHeadAttention<T>::Cache cache;
        zero_gradients(layer, gradients);
        CHECK(work_of<T>([&] { layer.forward(x, y, cache); }) == 4 * projection + 2 * tile);
        CHECK(work_of<T>([&] { layer.backward(y, dx, cache, gradients); }) == 8 * projection + 5 * tile);
    }
    const CrossAttention<T> cross({.width = d, .heads = 2});
    typename CrossAttention<T>::Gradients gradients;
    typename CrossAttention<T>::Cache cache;
    zero_gradients(cross, gradients);
    const std::size_t memory_projection = b * m * d * d, cross_tile = b * s * m * d;
    CHECK(work_of<T>([&] { cross.forward(x, y, cache, memory); }) ==
          2 * projection + 2 * memory_projection + 2 * cross_tile);
    CHECK(work_of<T>([&] { cross.backward(y, dx, cache, gradients, dmemory); }) ==
          4 * projection + 4 * memory_projection + 5 * cross_tile);
}
