// y = x W^T + b, and that the product goes to the BLAS.
#include <doctest/doctest.h>

#include <chrono>

#include <normplace/nn/linear.hpp>

#include "gradient_check.hpp"

using namespace normplace;
using namespace normplace::test;

TEST_CASE("y = x W^T + b, and its gradients") {
    for (const bool bias : {true, false}) {
        Linear<double> linear(3, 2, bias);
        randomize_parameters(linear, 1);
        Activations<double> x = random_activations(2, 3, 3, 2), y, dx;
        linear.forward(x, y);
        for (std::size_t r = 0; r < 6; ++r)
            for (std::size_t o = 0; o < 2; ++o) {
                double expected = bias ? linear.bias[o] : 0.0;
                for (std::size_t i = 0; i < 3; ++i) expected += x.data()[r * 3 + i] * linear.weight(o, i);
                CHECK(y.data()[r * 2 + o] == doctest::Approx(expected).epsilon(1e-14));
            }
        const Activations<double> dy = random_activations(2, 3, 2, 3);
        Linear<double>::Gradients gradients;
        zero_gradients(linear, gradients);
        linear.backward(x, dy, dx, gradients);
        std::vector<Checked> all{checked("x", x, dx)};
        add_parameters(all, linear, gradients);
        check_gradients(all, [&] {
            linear.forward(x, y);
            return dot(y, dy);
        });
        const Activations<double> once = dx;
        linear.backward(x, dy, dx, gradients, true);
        for (std::size_t i = 0; i < dx.size(); ++i) CHECK(dx.data()[i] == doctest::Approx(2.0 * once.data()[i]));
    }
}

TEST_CASE("no rows are no work") {
    Linear<float> linear(3, 2);
    Activations<float> x, y;
    x.resize({0, 5, 3});
    linear.forward(x, y);
    CHECK(y.shape()[1] == 5);
    CHECK(y.size() == 0);
}

TEST_CASE("wrong arguments are refused with their values") {
    CHECK_THROWS_WITH(Linear<float>(0, 2), "Linear: input width is 0, expected at least 1");
    CHECK_THROWS_WITH(Linear<float>(2, 0), "Linear: output width is 0, expected at least 1");
    const Linear<double> linear(3, 2);
    Activations<double> x = random_activations(1, 2, 4, 1), y;
    CHECK_THROWS_WITH(linear.forward(x, y), "Linear: x has shape (1, 2, 4), expected (B, S, 3)");
    const Linear<double> square(4, 4);
    CHECK_THROWS_WITH(square.forward(x, x), "Linear: x and y are the same tensor");
}

TEST_CASE("a product too large for a BLAS index is refused") {
    const float a = 0.0f;
    float c = 0.0f;
    const std::size_t too_large = std::size_t{1} << 40;
    CHECK_THROWS_WITH(
        detail::gemm(detail::Transposed::no, detail::Transposed::no, 1, 1, too_large, 1.0f, &a, 1, &a, 1, 0.0f, &c, 1),
        "gemm: size 1099511627776 exceeds what a BLAS index holds");
}

TEST_CASE("the BLAS's threads are put back as they were, by the last who took them") {
#if defined(NORMPLACE_HAS_OPENBLAS_SWITCH) && defined(_OPENMP)
    if (openblas_get_num_threads && openblas_get_parallel && openblas_get_parallel() == 1) {
        const int before = openblas_get_num_threads(), openmp = omp_get_max_threads();
        openblas_set_num_threads(2);
        {
            const detail::SingleThreadedBlas outer;
            CHECK(openblas_get_num_threads() == 1);
            { const detail::SingleThreadedBlas inner; }
            CHECK(openblas_get_num_threads() == 1);
            CHECK(omp_get_max_threads() == openmp);
        }
        CHECK(openblas_get_num_threads() == 2);
        openblas_set_num_threads(before);
    }
#endif
}
